/* SPDX-License-Identifier: MIT */
/*
 * The handle of a run, and its threads: agents (agent.c), predictors (predictor.c) and trainers (trainer.c), or for A2C
 * a scheduler (scheduler.c). The thread that advances opens the gate for a number of steps, and waits until all agents
 * are back at the gate and all rollouts are trained on. What threads share is under one lock, which each step takes
 * once.
 */
#pragma once

#include "base/clock.h"
#include "base/mutex.h"
#include "run/ga3c/model.h"
#include "run/ga3c/queue.h"
#include "run/ga3c/rollout.h"
#include "run/ga3c/tuner.h"
#include "gpureplay/ga3c.h"
#include "run/env_runner.h"

enum { GPUR_GA3C_RECENT = 100, GPUR_GA3C_ERROR = 512 };

/* What an agent asks the scheduler for. ANSWERED: it is computed, and the agent was not told so yet. */
enum { GPUR_ASK_NOTHING = 0, GPUR_ASK_ACTION = 1, GPUR_ASK_VALUE = 2, GPUR_ASK_ANSWERED = 3 };

/* What an agent has done since it was last at the gate. */
typedef struct gpur_agent_report {
    int64_t steps, dropped_rows;
    double environment_seconds, wait_seconds, queue_seconds;
    int32_t has_ended; /* 1: an episode has; then: */
    int64_t length;
    double episode_return;
} gpur_agent_report;

/* The slot of an agent, where one follows another. A thread waits for its reply before it ends, so a reply always
 * finds the agent that has asked. */
typedef struct gpur_agent_slot {
    gpur_ga3c *run;
    int32_t number;
    pthread_t thread;
    int32_t has_thread;   /* under set_lock */
    _Atomic int must_end; /* to end */

    /* The request, and the reply: of the agent, and from asking until `replied` is posted of who answers. */
    const void *obs;
    uint64_t steps;       /* that agents here have taken: the number of the action's random numbers */
    int32_t action, cuts; /* cuts 1: A2C's rollouts end with this step */
    int32_t is_dismissed; /* 1: there is no reply, and the agent ends */
    float value;
    int64_t version;
    double since; /* A2C: when the advance began in which the reply comes */
    sem_t replied;
    gpur_queue_waiter waiter; /* for room in the training queue */
    int32_t has_semaphores;

    /* Under the lock. */
    int64_t incarnation; /* agents that have begun here before */

    /* A2C, under the lock. */
    int32_t asks;          /* GPUR_ASK_* */
    int32_t is_in_round;   /* 1: its action is there, and it was not told so yet */
    gpur_rollout *rollout; /* complete, and not trained on yet */
} gpur_agent_slot;

/* A batch that is being put together from rollouts. */
typedef struct gpur_training_batch {
    gpur_rollout **rollouts; /* (most_rollouts) */
    int64_t count;
    unsigned char *obs; /* (rows, obs_bytes) */
    int32_t *actions;   /* (rows) */
    float *returns;     /* (rows) */
} gpur_training_batch;

/* Requests that are being answered. */
typedef struct gpur_prediction_batch {
    unsigned char *obs;      /* (most, obs_bytes) */
    gpur_agent_slot **asked; /* (most) */
    uint32_t *lanes;         /* (most), and so on */
    uint64_t *steps;
    int32_t *actions;
    float *values;
} gpur_prediction_batch;

/* A predictor, a trainer, or the scheduler. */
typedef struct gpur_ga3c_thread {
    gpur_ga3c *run;
    int32_t number;
    pthread_t handle;
    int32_t has_thread; /* under set_lock */
    _Atomic int must_end;
    gpur_prediction_batch requests;
    gpur_training_batch batch;
} gpur_ga3c_thread;

/* Counters that a saved run goes on from. */
typedef struct gpur_ga3c_counts {
    int64_t steps, episodes, predictions, prediction_batches, train_steps, trained_rows, training_batches;
    int64_t refused_rollouts, overwritten_rollouts, left_rollouts, dropped_rows, largest_lag, lag_sum;
    int64_t lags[GPUR_GA3C_LAGS];
} gpur_ga3c_counts;

/* The returns of the last episodes. */
typedef struct gpur_ga3c_returns {
    double values[GPUR_GA3C_RECENT];
    int64_t count; /* ever added */
} gpur_ga3c_returns;

typedef struct gpur_ga3c_events {
    gpur_ga3c_event *list; /* (count) */
    int64_t count, room;
} gpur_ga3c_events;

struct gpur_ga3c {
    gpur_ga3c_config config; /* pointers are to memory of the run */
    gpur_ga3c_model model;
    const gpur_env_type *type;
    char *env_options;
    gpur_obs_shape shape;
    int64_t obs_bytes, most_rollouts, most_rows; /* of a batch */
    gpur_rollout_pool pool;
    gpur_queue requests;          /* of gpur_agent_slot */
    gpur_queue rollouts;          /* of gpur_rollout */
    gpur_agent_slot *slots;       /* (GPUR_GA3C_MAX_AGENTS) */
    gpur_ga3c_thread *predictors; /* (GPUR_GA3C_MAX_PREDICTORS); A2C: the first is the scheduler */
    gpur_ga3c_thread *trainers;   /* (GPUR_GA3C_MAX_TRAINERS) */
    _Atomic int64_t updates;      /* train steps done, for the lag in the queue */
    _Atomic int stopping;

    gpur_mutex set_lock; /* one change of the numbers at a time */
    int32_t has_begun;   /* under set_lock: threads have been started */

    gpur_mutex lock;           /* protects what follows, and of slots what they say */
    gpur_ga3c_numbers numbers; /* wanted */
    gpur_ga3c_numbers largest; /* that there were at the same time */
    int64_t remaining;         /* steps that may still begin */
    double started;            /* the time at which this or the last advance began */
    int32_t running, active;   /* agents that have a thread; of these, not waiting at the gate */
    int64_t untrained;         /* rollouts that were handed over, and not trained on yet */
    int32_t waiting, in_round; /* A2C: agents that have asked; of these, those in the open round */
    int32_t is_performing;     /* A2C: a forward pass or a train step runs */
    int64_t rounds;            /* A2C: steps of all agents so far */
    gpur_ga3c_counts counts;
    gpur_ga3c_returns returns;
    double seconds, environment_seconds, wait_seconds, queue_seconds, predict_seconds, predictor_seconds;
    double train_seconds;
    gpur_actor_critic_losses losses;
    gpur_ga3c_events events;
    gpur_status status; /* of the run, with its message */
    char error[GPUR_GA3C_ERROR];

    gpur_tuner tuner;    /* of the thread that advances, as what follows */
    double window, mark; /* seconds of advancing, at which a window ends, or its measurement begins */
    int32_t is_measuring;
    int64_t marked_batches;
    uint64_t eval_steps; /* that evaluations have taken: the number of their random numbers */
    int64_t eval_games;  /* environments that were made for them */
    int64_t eval_cut;    /* their games that were cut off; under lock */
};

/* config.c */

/* Reads the settings, and checks those that need nothing else. */
gpur_status gpur_ga3c_read_config(const gpur_ga3c_config *given, gpur_ga3c_config *config);

/* Reads and checks the settings with the model and the type of environment, and copies what they point to. */
gpur_status gpur_ga3c_configure(gpur_ga3c *run, const gpur_ga3c_config *given);

/* The numbers as this system has them. */
gpur_ga3c_numbers gpur_ga3c_numbers_of(const gpur_ga3c *run, int32_t agents, int32_t predictors, int32_t trainers);
gpur_status gpur_ga3c_check_numbers(const gpur_ga3c *run, gpur_ga3c_numbers numbers);

/* ga3c.c */

/* Creates a run with a model, which it closes at its end; if the call fails it is closed, too. */
gpur_status gpur_ga3c_create_with(const gpur_ga3c_model *model, const gpur_env_type *type,
                                  const gpur_ga3c_config *config, gpur_ga3c **run);
gpur_status gpur_ga3c_check_open(gpur_ga3c *run);

/* Makes a seed for the environment of an agent's incarnation. */
uint64_t gpur_ga3c_env_seed(const gpur_ga3c *run, int64_t incarnation, int32_t number);

/* Opens an environment, and what the network sees of it. `runner` is zeroed before, and closed with close_player
 * whatever this returns. */
gpur_status gpur_ga3c_open_runner(const gpur_ga3c *run, uint64_t seed, gpur_env_runner *runner);
void gpur_ga3c_close_runner(gpur_env_runner *runner);

/* threads.c */

gpur_status gpur_ga3c_set(gpur_ga3c *run, gpur_ga3c_numbers numbers);
gpur_status gpur_ga3c_begin(gpur_ga3c *run); /* starts the threads, once */
void gpur_ga3c_end_threads(gpur_ga3c *run);

/* events.c */

/* Ends the run with the message of this thread's error, if it has not ended before. Without the lock. */
void gpur_ga3c_fail(gpur_ga3c *run, gpur_status status);
int gpur_ga3c_has_failed(gpur_ga3c *run);

/* Under the lock. */
void gpur_ga3c_take_report(gpur_agent_slot *slot, gpur_agent_report *report);
void gpur_ga3c_add_event(gpur_ga3c *run, gpur_ga3c_event event);

/* Without the lock, in the thread that advances. */
void gpur_ga3c_deliver_events(gpur_ga3c *run);

/* advance.c */

/* Lets the tuner work if its time has come: it judges the numbers of threads by what was measured, and sets the next
 * ones. A measurement begins when a change has settled. `now`: seconds of advancing. */
gpur_status gpur_ga3c_tune(gpur_ga3c *run, double now);

/* The threads: agent.c, predictor.c, trainer.c, scheduler.c. Their context is the slot or the thread. */

void *gpur_ga3c_agent(void *context);
void *gpur_ga3c_predictor(void *context);
void *gpur_ga3c_trainer(void *context);
void *gpur_ga3c_scheduler(void *context);

/* predictor.c */

gpur_status gpur_prediction_batch_open(const gpur_ga3c *run, gpur_prediction_batch *batch);
void gpur_prediction_batch_close(gpur_prediction_batch *batch);

/* Answers the first so many of batch->asked, without telling them. Fails as the model does. */
gpur_status gpur_ga3c_predict(gpur_ga3c_thread *thread, int64_t count);

/* trainer.c */

gpur_status gpur_training_batch_open(const gpur_ga3c *run, gpur_training_batch *batch);
void gpur_training_batch_close(gpur_training_batch *batch);

/* Trains on the rollouts of a batch, with the shared model, or with `local` if it is not NULL, and returns them to the
 * pool. In a run that has failed it only returns them. */
void gpur_ga3c_train(gpur_ga3c *run, gpur_training_batch *batch, void *local);

/* scheduler.c: A2C. */

/* Waits for the scheduler's reply. */
void gpur_a2c_ask(gpur_agent_slot *slot, int32_t asks);
void gpur_a2c_hand_over(gpur_agent_slot *slot, gpur_rollout *rollout);

/* 1 if all agents wait for steps, and there is nothing to train on. Under the lock. */
int gpur_a2c_is_parked(const gpur_ga3c *run);
