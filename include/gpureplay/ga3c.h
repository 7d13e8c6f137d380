/* SPDX-License-Identifier: MIT */
/*
 * GA3C [Babaeizadeh et al. 2017]: many agents, each with an environment and without a model, ask predictors for their
 * actions and give rollouts of a few steps to trainers. There is one actor-critic (actor_critic.h). All of them are
 * threads of this process.
 *
 *     agent                             predictor
 *     observation ──────────────────►   takes all requests that wait, up to 128; one forward pass
 *       action, value, version ◄─────   replies to each agent
 *     step, ... up to 5 steps           trainer
 *     rollout with its returns ─────►   joins rollouts to a batch; one train step; new weights for predictors
 *
 * Agents do not wait for train steps, so a rollout may be trained on with newer weights than it was acted with: the
 * policy lag [section 4.4]. A run is not the same bits each time.
 *
 * The same agents, environments and rollouts also run as two systems to compare with: A3C [Mnih et al. 2016], where
 * each agent has a copy of the model and trains by itself, and its synchronous form, A2C, which is deterministic.
 */
#ifndef GPUREPLAY_GA3C_H
#define GPUREPLAY_GA3C_H

#include "gpureplay/actor_critic.h"
#include "gpureplay/env.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A run. One thread at a time advances, evaluates, saves and loads it; any thread may read statistics, set the numbers
 * of threads and stop it meanwhile. */
typedef struct gpur_ga3c gpur_ga3c;

/* The most agents, predictors and trainers of a run, and the most steps of a rollout. */
enum {
    GPUR_GA3C_MAX_AGENTS = 1024,
    GPUR_GA3C_MAX_PREDICTORS = 64,
    GPUR_GA3C_MAX_TRAINERS = 64,
    GPUR_GA3C_MAX_ROLLOUT = 256,
};

/* The systems. */
enum {
    GPUR_GA3C = 0, /* Babaeizadeh et al. 2017, section 4.1 */
    GPUR_A3C = 1,  /* Mnih et al. 2016, algorithm S3: at a rollout's beginning an agent copies the weights, acts with
                      the copy, and applies its gradients to the shared weights. No queues, predictors or trainers */
    GPUR_A2C = 2,  /* all agents step together. After every t_max-th step all of their rollouts are trained on as one
                      batch, in the order of the agents, before anybody acts again. With one predictor, which also
                      trains. Equal seeds give equal batches */
};

/* What becomes of a rollout when the training queue is full. */
enum {
    GPUR_QUEUE_WAIT = 0,        /* its agent waits, as in the authors' code */
    GPUR_QUEUE_REFUSE = 1,      /* it is dropped */
    GPUR_QUEUE_DROP_OLDEST = 2, /* the oldest in the queue is dropped */
};

/* How the numbers of agents, predictors and trainers are adjusted while the run goes on, to train on more rollouts a
 * second [section 4.3]: at random. A change stays if its rate is at least 95 % of the largest that stayed. After four
 * changes in a row that did not, the accepted numbers are measured again, and theirs is the rate to compare with. */
enum {
    GPUR_TUNER_NONE = 0,
    GPUR_TUNER_PAPER = 1, /* one of the three by +1 or -1 */
    GPUR_TUNER_CODE = 2,  /* each of the three by -1, 0 or +1, as in the authors' code */
};

/* What happened in a run. */
enum {
    GPUR_GA3C_EPISODE = 0, /* an episode has ended: a whole game, also where each life ends a rollout */
    GPUR_GA3C_TUNED = 1,   /* the tuner has measured its numbers */
};

typedef struct gpur_ga3c_event {
    uint64_t size;                        /* sizeof(gpur_ga3c_event) of the library */
    int32_t kind;                         /* GPUR_GA3C_EPISODE or TUNED */
    int32_t agent;                        /* EPISODE: 0 to agents - 1 */
    int64_t step;                         /* environment steps of all agents so far */
    int64_t train_steps;                  /* train steps so far */
    int64_t length;                       /* EPISODE: its steps */
    double episode_return;                /* EPISODE: the sum of its rewards, unclipped and not discounted */
    int32_t agents, predictors, trainers; /* TUNED: the numbers that were measured */
    int32_t accepted;                     /* TUNED: 1: they stay; 0: those before come back */
    double rate;                          /* TUNED: rollouts trained on a second */
} gpur_ga3c_event;

/* Settings of gpur_ga3c_create. gpur_ga3c_config_init sets the defaults, which are those of the authors' code, except
 * that terminal steps are trained on. */
typedef struct gpur_ga3c_config {
    uint64_t size;                /* sizeof(gpur_ga3c_config), as the caller was compiled */
    int32_t system;               /* GPUR_GA3C, GPUR_A3C or GPUR_A2C; default GPUR_GA3C */
    int32_t agents;               /* 1 to GPUR_GA3C_MAX_AGENTS; default 32 */
    int32_t predictors;           /* GPUR_GA3C: 1 to GPUR_GA3C_MAX_PREDICTORS; default 2. As many forward passes run at
                                     the same time, or with a tuner the most; further predictors wait for them */
    int32_t trainers;             /* GPUR_GA3C: 1 to GPUR_GA3C_MAX_TRAINERS; default 2. Their train steps are done one
                                     after another */
    int32_t t_max;                /* steps of a rollout, 1 to GPUR_GA3C_MAX_ROLLOUT; default 5 */
    float discount;               /* gamma, 0 to 1; default 0.99 */
    float reward_clip;            /* rewards are clipped to [-reward_clip, reward_clip]; 0: they are not; default 1 */
    int32_t drop_terminal;        /* 1: a step in which an episode terminates is not trained on, and its reward is lost,
                                     as in the authors' code. 0, the default: it is trained on. The last step of an
                                     episode that is truncated is trained on either way */
    int32_t max_prediction_batch; /* requests of a forward pass, 1 to 65,536; default 128 */
    int32_t min_train_batch;      /* GPUR_GA3C: trainers join rollouts until they have more steps than this; 0, the
                                     default: each rollout is a batch. The learner's max_batch must be at least this
                                     plus t_max; for GPUR_A2C agents x t_max */
    int32_t queue_room;           /* rollouts that the training queue holds, 1 to 65,536; default 100 */
    int32_t when_full;            /* GPUR_QUEUE_*; default WAIT */
    int32_t tuner;                /* GPUR_TUNER_*, GPUR_GA3C alone; default NONE */
    double tuner_period;          /* seconds of a measurement; 0, the default: 60 for GPUR_TUNER_PAPER, 20 for CODE */
    double tuner_settling;        /* seconds after a change that are not measured, 0 or more; default 1 */
    int32_t max_agents;           /* the most that the tuner sets, at least `agents`; default GPUR_GA3C_MAX_AGENTS */
    int32_t reserved;             /* 0 */
    uint64_t seed;                /* of environments and tuner, and of the actions; default 0 */
    const char *env_options;      /* given to each environment's init; NULL, the default: "" */
    void (*on_event)(void *user, const gpur_ga3c_event *event); /* called in the thread that advances; NULL: not
                                                                   called */
    void *user;                                                 /* given to on_event */
} gpur_ga3c_config;

/* Sets every member to its default. `size` is sizeof(gpur_ga3c_config). Any thread. GPUR_INVALID_ARGUMENT: NULL, or a
 * size below 8 or above 65,536. */
GPUR_API gpur_status gpur_ga3c_config_init(gpur_ga3c_config *config, uint64_t size);

/*
 * Sets the members that a system specifies, in configs that were initialized, for an environment, of which it makes one
 * to ask for its spaces. Of `learner` these are all but max_batch, deterministic and seed; of `run` all but agents,
 * predictors, trainers, the tuner's, seed, on_event and user. Other members keep their values. `math` becomes FP32, as
 * in the papers, and with "-small" AUTO: another one is set afterwards. Any thread.
 *
 *   "ga3c"            all constants of Babaeizadeh et al. 2017 and of its code: two convolutions and 256 units on four
 *                     frames of 84 x 84 bytes, padded, scaled and initialized as in the code
 *   "ga3c-large-4", "ga3c-large-3", "ga3c-large-2", "ga3c-large-1"
 *                     the four networks of its Table 2: 32 filters in the first layer with this stride, and a third
 *                     convolution
 *   "a3c-cpu", "a2c"  the network of "ga3c" with GPUR_A3C, whose gradients are clipped [section 4.4], and GPUR_A2C
 *   "ga3c-small", "a3c-small", "a2c-small"
 *                     this library's own, for games like CartPole and MinAtar on a few cores: the network of
 *                     "fast-dqn-small", trained on rollouts of more than 40 steps together
 *
 *   type, options  the environment; run->env_options becomes `options`, which must exist until gpur_ga3c_create
 *
 *   GPUR_INVALID_ARGUMENT  no such name, an environment that the preset cannot take, or NULL
 */
GPUR_API gpur_status gpur_ga3c_preset(const char *name, const gpur_env_type *type, const char *options,
                                      gpur_actor_critic_config *learner, gpur_ga3c_config *run);

/*
 * Creates a run, and starts its threads at the first gpur_ga3c_advance. The learner and the type of environment must
 * outlive the run. Where the learner's observation has one axis more than the environment's, it is a stack of the last
 * frames on the axis of channels (network.input_layout), filled with zeros at an episode's beginning.
 *
 *   GPUR_INVALID_ARGUMENT  a value out of its range, settings that do not go together (the message has both), an
 *                          environment whose observations or actions are not the learner's, or NULL
 *   GPUR_OUT_OF_MEMORY     not enough memory
 */
GPUR_API gpur_status gpur_ga3c_create(gpur_learner *learner, const gpur_env_type *type, const gpur_ga3c_config *config,
                                      gpur_ga3c **run);

/* Ends all threads, each after its step of the environment or its batch, and frees the run. Rollouts that are not
 * complete are lost. Not to be called by on_event. NULL does nothing. */
GPUR_API void gpur_ga3c_destroy(gpur_ga3c *run);

/*
 * Takes exactly so many more environment steps, of all agents together; then trains on the rollouts that are complete,
 * also where they are fewer than min_train_batch, and returns when no thread does anything. Rollouts that are not
 * complete go on in the next call; with GPUR_A2C also complete ones, if other agents have not taken that step yet.
 *
 *   GPUR_INVALID_ARGUMENT  steps below 1, NULL, a run that has ended by an error, what an environment refused, an
 *                          observation or a reward that is not finite (the message names the agent and its step), or a
 *                          learner that has diverged (the message is as learner.h says)
 *   GPUR_INTERRUPTED       gpur_ga3c_stop was called; the run can be advanced again
 *   GPUR_OUT_OF_MEMORY, GPUR_DEVICE_ERROR, ...  the first error of any thread
 */
GPUR_API gpur_status gpur_ga3c_advance(gpur_ga3c *run, int64_t steps);

/* Makes gpur_ga3c_advance and gpur_ga3c_evaluate return soon: no further step begins. Outside of such a call it ends
 * the next one. Any thread; also safe in a signal handler. NULL does nothing. */
GPUR_API void gpur_ga3c_stop(gpur_ga3c *run);

/*
 * Changes the numbers of threads while the run goes on: those of higher numbers end, or new ones start. The call waits
 * for those that end: agents after their step of the environment, predictors and trainers after their batch. The steps
 * of an agent's open rollout are lost. GPUR_A3C and GPUR_A2C do not read predictors and trainers, and report 1 of each.
 * A tuner goes on from its own numbers. Any thread, also in on_event.
 *
 *   GPUR_INVALID_ARGUMENT  a number out of its range, for GPUR_A2C too many agents for the learner's max_batch, with a
 *                          tuner more agents than max_agents, or NULL
 *   GPUR_OUT_OF_MEMORY     not enough memory or no more threads; there are then as many as could be started
 */
GPUR_API gpur_status gpur_ga3c_set_counts(gpur_ga3c *run, int32_t agents, int32_t predictors, int32_t trainers);

/*
 * Plays whole games in an environment of its own, with the learner's present weights. Only between two calls of
 * gpur_ga3c_advance; steps and rollouts of the run do not change. A game has at most the max_steps of its environment,
 * or if that is 0 GPUR_EVALUATION_STEPS.
 *
 *   episodes     1 or more
 *   greedy       1: the most probable action; 0: drawn, as agents do
 *   mean_return  receives the mean return, unclipped and not discounted
 *
 *   errors  those of gpur_ga3c_advance; GPUR_INTERRUPTED: gpur_ga3c_stop was called
 */
GPUR_API gpur_status gpur_ga3c_evaluate(gpur_ga3c *run, int64_t episodes, int32_t greedy, double *mean_return);

/* Bins of the histogram of the policy lag: 0, 1, ... 62 updates, and 63 or more. */
enum { GPUR_GA3C_LAGS = 64 };

/*
 * What gpur_ga3c_get_stats reports. Counts go on from a loaded file; seconds and the queue's do not. Seconds of agents,
 * predictors and trainers are sums over the threads.
 */
typedef struct gpur_ga3c_stats {
    uint64_t size;                        /* sizeof(gpur_ga3c_stats), as the caller was compiled: set it before the
                                             call */
    int64_t steps;                        /* environment steps of agents */
    int64_t episodes;                     /* games that have ended */
    int64_t predictions;                  /* requests answered */
    int64_t prediction_batches;           /* forward passes for them */
    int64_t train_steps;                  /* updates of the weights */
    int64_t trained_rows;                 /* steps in them */
    int64_t training_batches;             /* rollouts in them, which is what the paper counts as TPS */
    int64_t refused_rollouts;             /* dropped since the queue was full */
    int64_t overwritten_rollouts;         /* dropped from the queue for newer ones */
    int64_t left_rollouts;                /* open or waiting ones of agents that were asked to end */
    int64_t dropped_rows;                 /* steps of all of these, and with drop_terminal terminal steps */
    int32_t agents, predictors, trainers; /* now */
    double prediction_queue;              /* mean number of requests that a predictor found */
    double training_queue;                /* mean length before a rollout was removed, at most queue_room */
    int64_t lags[GPUR_GA3C_LAGS];         /* trained steps by policy lag: updates between the weights that chose the
                                             action and those that the update began with */
    double mean_lag;
    int64_t largest_lag;
    int64_t queue_lag;          /* the largest number of updates while a rollout was in the training queue */
    int64_t queue_lag_bound;    /* with GPUR_QUEUE_WAIT it is never above this [section 4.4]: queue_room, agents that
                                    wait, and batches of trainers. 0 without a queue */
    double seconds;             /* in gpur_ga3c_advance */
    double environment_seconds; /* of agents in their environments */
    double wait_seconds;        /* of agents waiting for replies, or acting with their own model */
    double queue_seconds;       /* of agents waiting for room in the training queue */
    double predict_seconds;     /* of predictors in forward passes */
    double predictor_seconds;   /* of predictors with requests at hand, outside of forward passes */
    double train_seconds;       /* in train steps, and of trainers that wait for another's step to end */
    double recent_return;       /* mean return of the last 100 games; NaN before the first */
    double policy_loss, value_loss, entropy, mean_value, gradient_norm, learning_rate; /* of the last train step, as in
                                                                                          gpur_actor_critic_losses */
    int64_t eval_cut; /* games of evaluations that were truncated after GPUR_EVALUATION_STEPS, since the run was made */
} gpur_ga3c_stats;

/* Reads the statistics. Any thread. GPUR_INVALID_ARGUMENT: NULL, or `stats->size` was not set. */
GPUR_API gpur_status gpur_ga3c_get_stats(gpur_ga3c *run, gpur_ga3c_stats *stats);

/*
 * Saves the run to a folder, which is created if it is not there: the learner ("learner.safetensors"), and counters
 * with the numbers of threads ("ga3c.safetensors", written last). Only between two calls of gpur_ga3c_advance. With a
 * tuner the numbers are those that it has accepted; its rate is not saved, and measured again after loading.
 *
 * gpur_ga3c_load restores it into a run of the same environment, system, seed, t_max, discount, reward_clip and
 * drop_terminal, before its first gpur_ga3c_advance. Agents begin new episodes, with seeds that were not used before.
 *
 *   errors  those of gpur_learner_save and gpur_learner_load; GPUR_FILE_ERROR also: files of different saves.
 *           The run is as it was when gpur_ga3c_load refuses a file
 */
GPUR_API gpur_status gpur_ga3c_save(gpur_ga3c *run, const char *folder);
GPUR_API gpur_status gpur_ga3c_load(gpur_ga3c *run, const char *folder);

#ifdef __cplusplus
}
#endif
#endif
