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
 *
 *     gpur_ga3c_preset("ga3c-small", &run_config, &actor_critic_config, &ga3c_config);
 *     gpur_actor_critic_create(device, &actor_critic_config, &learner);
 *     gpur_ga3c_create(learner, &run_config, &ga3c_config, &run);
 *     gpur_run_advance(run, 200000, 0);
 */
#ifndef GPUREPLAY_GA3C_H
#define GPUREPLAY_GA3C_H

#include "gpureplay/actor_critic.h"
#include "gpureplay/run_handle.h"

#ifdef __cplusplus
extern "C" {
#endif

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

/* The choices for a rollout that finds the training queue full. */
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
} gpur_ga3c_config;

/* Sets every member to its default. `size` is sizeof(gpur_ga3c_config). Any thread. GPUR_INVALID_ARGUMENT: NULL, or a
 * size below 8 or above 65,536. */
GPUR_API gpur_status gpur_ga3c_config_init(gpur_ga3c_config *config, uint64_t size);

/*
 * Sets the members that a system specifies, in configs that were initialized, for an environment. The call makes one
 * to ask for its spaces. Of `learner` these are all but max_batch and seed; of `config` all but agents, predictors,
 * trainers and the tuner's; `run` gets evaluations of 30 episodes, and eval_period 0. Other members keep their values.
 * `math` becomes FP32, as in the papers, and with "-small" AUTO: another one is set afterwards. Any thread.
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
 *   GPUR_INVALID_ARGUMENT  no such name, an environment that the preset cannot take, or NULL
 */
GPUR_API gpur_status gpur_ga3c_preset(const char *name, gpur_run_config *run, gpur_actor_critic_config *learner,
                                      gpur_ga3c_config *config);

/*
 * Creates a run, which starts its threads at the first gpur_run_advance. The learner must outlive the run; between two
 * calls of gpur_run_advance others may use, train, save and load it. Where the learner's observation has one axis more
 * than the environment's, it is a stack of the last frames on the axis of channels (network.input_layout), filled with
 * zeros at an episode's beginning.
 *
 * gpur_run_advance trains at its end, and before each evaluation, on the rollouts that are complete, also where they
 * are fewer than min_train_batch. Rollouts that are not complete go on in the next call, or after the evaluation; with
 * GPUR_A2C also complete ones, if other agents have not taken that step yet. A run needs `type` of the environments,
 * and takes no vector.
 *
 *   GPUR_INVALID_ARGUMENT  a value out of its range, settings that do not go together (the message has both), an
 *                          environment whose observations or actions are not the learner's, or NULL
 *   GPUR_OUT_OF_MEMORY     not enough memory
 */
GPUR_API gpur_status gpur_ga3c_create(gpur_learner *learner, const gpur_run_config *run, const gpur_ga3c_config *config,
                                      gpur_run **handle);

/*
 * Changes the numbers of threads while the run goes on: those of higher numbers end, or new ones start. The call waits
 * for those that end: agents after their step of the environment, predictors and trainers after their batch. The steps
 * of an agent's open rollout are lost. GPUR_A3C and GPUR_A2C do not read predictors and trainers, and report 1 of each.
 * A tuner goes on from its own numbers. Any thread, also in on_event.
 *
 *   GPUR_INVALID_ARGUMENT  a number out of its range, for GPUR_A2C too many agents for the learner's max_batch, with a
 *                          tuner more agents than max_agents, a run of another system, or NULL
 *   GPUR_OUT_OF_MEMORY     not enough memory or no more threads; there are then as many as could be started
 *
 *     gpur_ga3c_set_counts(run, 32, 2, 2);
 *     gpur_run_advance(run, 1000000, 0);
 */
GPUR_API gpur_status gpur_ga3c_set_counts(gpur_run *run, int32_t agents, int32_t predictors, int32_t trainers);

#ifdef __cplusplus
}
#endif
#endif
