/* SPDX-License-Identifier: MIT */
/*
 * The handle of a run of GA3C, A3C or A2C, and what its threads share: agents (agent.c), predictors (predictor.c) and
 * trainers (trainer.c), or for A2C a scheduler (a2c.c). The thread that advances (advance.c) opens the gate for a
 * number of steps, and waits until all agents are back at the gate and all rollouts are trained on.
 */
#pragma once

#include "gpureplay/ga3c.h"
#include "run/core.h"
#include "run/ga3c/model.h"
#include "run/ga3c/queue.h"
#include "run/ga3c/rollout.h"
#include "run/ga3c/tuner.h"

/* The request of an agent to A2C's scheduler. ANSWERED: the result is ready, but the agent has not been woken. */
enum { GPUR_ASK_NOTHING = 0, GPUR_ASK_ACTION = 1, GPUR_ASK_VALUE = 2, GPUR_ASK_ANSWERED = 3 };

/* The counts of an agent since it last passed the gate, which the run has not got yet. */
typedef struct gpur_agent_report {
    int64_t steps, dropped_rows;
    double environment_seconds, wait_seconds, queue_seconds;
    int32_t has_ended; /* 1: an episode has ended, with this length and return */
    int64_t length;
    double episode_return;
} gpur_agent_report;

/* The slot of an agent. When the number of agents falls and rises again, a slot gets another agent, an incarnation. An
 * agent's thread waits for its reply before it ends, so a reply always finds the agent that has asked. */
typedef struct gpur_agent_slot {
    struct gpur_ga3c *run;
    int32_t number;
    pthread_t thread;
    int32_t has_thread;   /* under set_lock */
    _Atomic int must_end; /* 1: the agent ends at the next point where it can */

    /* The request and the reply. They belong to the agent; from asking until `replied` is posted, to the thread that
     * answers. */
    const void *obs;
    uint64_t steps;       /* taken by agents of this slot: the number of the action's random numbers */
    int32_t action, cuts; /* cuts 1: A2C's rollouts end with this step */
    int32_t is_dismissed; /* 1: the agent gets no reply and must end */
    float value;
    int64_t version;
    double since; /* A2C: when the advance began in which the reply comes */
    gpur_semaphore replied;
    gpur_queue_waiter waiter; /* for room in the training queue */

    /* Under the lock. */
    int64_t incarnation; /* agents that have begun here before */

    /* A2C, under the lock. */
    int32_t asks;          /* GPUR_ASK_* */
    int32_t is_in_round;   /* 1: its action is ready, and it has not been woken */
    gpur_rollout *rollout; /* complete, and not trained on yet */
} gpur_agent_slot;

/* Rollouts that are joined to a batch, and room for their rows. */
typedef struct gpur_training_batch {
    gpur_rollout **rollouts; /* (most_rollouts) */
    int64_t count;
    unsigned char *obs; /* (rows, obs_bytes) */
    int32_t *actions;   /* (rows) */
    float *returns;     /* (rows) */
} gpur_training_batch;

/* Requests that one forward pass answers. */
typedef struct gpur_prediction_batch {
    unsigned char *obs;      /* (most, obs_bytes) */
    gpur_agent_slot **asked; /* (most) */
    uint32_t *lanes;         /* (most), and so on */
    uint64_t *steps;
    int32_t *actions;
    float *values;
} gpur_prediction_batch;

/* The thread of a predictor, of a trainer, or of the scheduler. */
typedef struct gpur_ga3c_thread {
    struct gpur_ga3c *run;
    int32_t number;
    pthread_t handle;
    int32_t has_thread; /* under set_lock */
    _Atomic int must_end;
    gpur_prediction_batch requests;
    gpur_training_batch batch;
} gpur_ga3c_thread;

/* A run. The members that its threads share are under the lock of the core; those of a slot, as its comments say. */
typedef struct gpur_ga3c {
    gpur_run core;
    gpur_ga3c_config config;
    gpur_ga3c_model model;
    gpur_obs_shape shape;
    int64_t obs_bytes, most_rollouts, most_rows; /* of a batch */
    gpur_rollout_pool pool;
    gpur_queue requests;          /* of gpur_agent_slot */
    gpur_queue rollouts;          /* of gpur_rollout */
    gpur_ga3c_thread *predictors; /* (GPUR_GA3C_MAX_PREDICTORS); A2C: the first is the scheduler */
    gpur_ga3c_thread *trainers;   /* (GPUR_GA3C_MAX_TRAINERS) */
    _Atomic int64_t updates;      /* train steps done, for the lag in the queue */

    gpur_mutex set_lock; /* one change of the numbers at a time */
    int32_t has_begun;   /* under set_lock: threads have been started */

    /* Under the core's lock. */
    gpur_agent_slot **slots;   /* (GPUR_GA3C_MAX_AGENTS), the first slot_count are there; made under set_lock */
    int32_t slot_count;        /* as many as there were agents at most */
    gpur_ga3c_numbers numbers; /* wanted */
    gpur_ga3c_numbers largest; /* that there were at the same time */
    int64_t remaining;         /* steps that may still begin */
    int32_t running, active;   /* agents that have a thread; of these, not waiting at the gate */
    int64_t untrained;         /* rollouts that were handed over, and not trained on yet */
    int32_t waiting, in_round; /* A2C: agents that have asked; of these, those in the open round */
    int32_t is_performing;     /* A2C: a forward pass or a train step runs */
    int64_t rounds;            /* A2C: steps of all agents so far */
    int64_t last_update;       /* the train step whose losses the statistics have */
    const struct gpur_evaluator *evaluator; /* of the evaluation that is played; NULL: none is */

    /* Used only by the thread that advances. */
    gpur_tuner tuner;
    double window, mark; /* seconds of advancing, at which a window ends, or its measurement begins */
    int32_t is_measuring;
    int64_t marked_batches;
    uint64_t eval_steps; /* steps of evaluations: the number of their random numbers */
    int64_t eval_games;  /* evaluations for which environments were made */
} gpur_ga3c;

static inline gpur_ga3c *gpur_ga3c_of(gpur_run *run)
{
    return (gpur_ga3c *)(void *)run;
}

/* 1: a step may begin. Under the lock. */
static inline int gpur_ga3c_has_steps(const gpur_ga3c *run)
{
    return run->remaining > 0 && run->core.status == GPUR_OK && !atomic_load(&run->core.stopping);
}

/* Creates a run with a model, which it closes at its end; if the call fails it is closed, too. Tests and benchmarks
 * have models of their own. */
gpur_status gpur_ga3c_create_with(const gpur_ga3c_model *model, const gpur_run_config *all,
                                  const gpur_ga3c_config *config, gpur_run **run);

/* The settings, config.c. */

/* Reads the settings, and checks those that need nothing else. */
gpur_status gpur_ga3c_read_config(const gpur_ga3c_config *given, gpur_ga3c_config *config);

/* Reads and checks the settings with the model and the type of environment. */
gpur_status gpur_ga3c_configure(gpur_ga3c *run, const gpur_ga3c_config *given);

/* The numbers as this system has them. */
gpur_ga3c_numbers gpur_ga3c_numbers_of(const gpur_ga3c *run, int32_t agents, int32_t predictors, int32_t trainers);
gpur_status gpur_ga3c_check_numbers(const gpur_ga3c *run, gpur_ga3c_numbers numbers);

/* The threads, threads.c. */

/* Sets the numbers of threads, and waits for those that end. Under set_lock. */
gpur_status gpur_ga3c_set(gpur_ga3c *run, gpur_ga3c_numbers numbers);

/* Starts the threads, once. */
gpur_status gpur_ga3c_begin(gpur_ga3c *run);
void gpur_ga3c_end_threads(gpur_ga3c *run);

/* Makes slots for so many agents, if there are fewer. Under set_lock, or before there are threads. */
gpur_status gpur_ga3c_make_slots(gpur_ga3c *run, int32_t count);

/* Functions of gpur_run_system: advance.c, evaluation.c, state.c. */

gpur_status gpur_ga3c_advance(gpur_run *core, int64_t steps, int64_t train_steps);
gpur_status gpur_ga3c_evaluate(gpur_run *core, int64_t episodes, int32_t greedy, gpur_run_event *event);
gpur_status gpur_ga3c_save(gpur_run *core, const char *folder);
gpur_status gpur_ga3c_load(gpur_run *core, const char *folder, int32_t refill);

/* Lets the tuner work if its time has come: it judges the numbers of threads by what was measured, and sets the next
 * ones. A measurement begins when a change has settled. `now`: seconds of advancing. */
gpur_status gpur_ga3c_tune(gpur_ga3c *run, double now);

/* What the threads do. The context is the gpur_agent_slot of an agent, and the gpur_ga3c_thread of the others. */
void *gpur_ga3c_agent(void *context);
void *gpur_ga3c_predictor(void *context);
void *gpur_ga3c_trainer(void *context);
void *gpur_ga3c_scheduler(void *context);

/* Predictions, predictor.c. */

gpur_status gpur_prediction_batch_open(const gpur_ga3c *run, gpur_prediction_batch *batch);
void gpur_prediction_batch_close(gpur_prediction_batch *batch); /* accepts a zeroed one */

/* Computes the replies of the first `count` requests of the thread's batch, without waking the agents. */
gpur_status gpur_ga3c_predict(gpur_ga3c_thread *thread, int64_t count);

/* Train steps, trainer.c. */

gpur_status gpur_training_batch_open(const gpur_ga3c *run, gpur_training_batch *batch);
void gpur_training_batch_close(gpur_training_batch *batch); /* accepts a zeroed one */

/* Trains on the rollouts of a batch, with the shared model, or with `local` if it is not NULL, and returns them to the
 * pool. In a run that has failed it only returns them. */
void gpur_ga3c_train(gpur_ga3c *run, gpur_training_batch *batch, gpur_local_model *local);

/* The scheduler of A2C, a2c.c. */

/* From an agent's thread: asks for the scheduler's reply, under the lock; hands over a complete rollout. */
void gpur_a2c_ask(gpur_agent_slot *slot, int32_t asks);
void gpur_a2c_hand_over(gpur_agent_slot *slot, gpur_rollout *rollout);

/* 1 if all agents wait for steps, and there is nothing to train on. Under the lock. */
int gpur_a2c_is_parked(const gpur_ga3c *run);
