/* SPDX-License-Identifier: MIT */
/*
 * Runs: environments that act by a learner's network, a replay that they fill, and the learner's training, in threads
 * of their own. Both switches of fast DQN [Daley & Amato 2021, algorithm 1] are settings, so that a run is any of these
 * systems, with W environments:
 *
 *   concurrent  synchronized
 *       0            0        standard DQN [Mnih et al. 2015]
 *       1            0        concurrent training [Daley & Amato 2021, section 3]: for each period of C environment
 *                             steps the lanes act by the target network, while C / F train steps run beside them
 *       0            1        synchronized execution [section 4]: the lanes' W observations are one inference
 *       1            1        both: fast DQN
 *
 * A third setting, `burst`, does all C / F train steps of a period at its beginning. The lanes wait for them, and then
 * act by the latest weights. So DQN(lambda) works [Daley & Amato 2021b, Virtual Replay Cache, algorithm 1].
 *
 * A learner with a cache of returns (returns.h) has no target network. Its cache is refreshed once in each period of C
 * steps:
 *
 *   with burst       right before the burst
 *   with concurrent  by the trainer's thread, before the train steps that run beside the lanes. The lanes act by the
 *                    weights of the period's beginning
 *   with neither     before the first train step of the period. Transitions that are published later in the period may
 *                    overwrite some that the cache has; gpur_learner_stats counts these as missing_rows
 *
 * What a run does is a pure function of its settings and seed, whatever the timing of threads: the transitions, their
 * order in the replay, the weights and the events are the same bits each time. (On the CPU with the device's number of
 * threads unchanged; on CUDA if the learner is `deterministic`.) For that, transitions go to the replay only while no
 * train step runs: the lanes keep them in logs, which are published, that is appended to the replay, lane by lane after
 * all threads have finished the steps and train steps given to them.
 *
 * A lane is one of the W environments with its log; the paper calls the thread that steps it a sampler. Lane i,
 * counted from 0, takes the global steps i + 1, i + 1 + W, i + 1 + 2 W, ...
 */
#ifndef GPUREPLAY_RUN_H
#define GPUREPLAY_RUN_H

#include "gpureplay/dqn.h"
#include "gpureplay/env.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A run. One thread at a time advances and saves it; any thread may read statistics and stop it meanwhile. */
typedef struct gpur_run gpur_run;

/* What happened in a run. */
enum {
    GPUR_RUN_EPISODE = 0,    /* an episode of a lane has ended: a whole game, also where each life is an episode of the
                                replay */
    GPUR_RUN_EVALUATION = 1, /* an evaluation has ended */
};

typedef struct gpur_run_event {
    uint64_t size;      /* sizeof(gpur_run_event) of the library */
    int32_t kind;       /* GPUR_RUN_* */
    int32_t env_index;  /* of the episode: 0 to num_envs - 1; -1: an evaluation */
    int64_t step;       /* the global step that ended the episode, 0 or less in the prepopulation; of an
                                evaluation: the steps taken when its weights were copied */
    int64_t length;     /* steps of the episode; an evaluation: of all its episodes */
    int64_t episodes;   /* 1; an evaluation: its episodes */
    double mean_return; /* sum of the rewards, unclipped and not discounted; an evaluation: mean over its episodes */
    double return_deviation; /* an evaluation: standard deviation over its episodes; else 0 */
} gpur_run_event;

/* Settings of gpur_run_create. gpur_run_config_init sets the defaults, which are those of Daley & Amato 2021, table 5
 * and section 5. Steps are environment steps of all lanes together, unless a comment says otherwise. */
typedef struct gpur_run_config {
    uint64_t size;           /* sizeof(gpur_run_config), as the caller was compiled */
    int32_t num_envs;        /* W: environments, 1 to 4,096; with a cache of returns the replay's capacity / W must be
                                 at least twice its block_length; default 8 */
    int32_t threads;         /* threads that step them, each some lanes; 1 to W, and without `synchronized` at most 64;
                                 0, the default: W, and at most 64 */
    int32_t concurrent;      /* 1, the default: concurrent training. 0: a train step every F steps, for which the
                                 lanes wait, unless `burst` is 1 */
    int32_t synchronized;    /* 1, the default: synchronized execution, which needs 2 environments or more, or a
                                vector environment */
    int32_t act;             /* without `concurrent`: GPUR_ACT_LATEST, the default (the network that is trained, as in
                                 the paper), or GPUR_ACT_TARGET (as in the authors' code). With `concurrent` always the
                                 target network, if there is one. With `burst` or a cache of returns: LATEST */
    int32_t whole_episodes;  /* 1: only the steps of finished episodes go to the replay, as in the authors' code; 0, the
                                 default: all steps */
    int64_t target_period;   /* C: steps between two copies to the target network, or between two refreshes of a cache
                                 of returns; a multiple of F, and of W if `synchronized`; default 10,000. Without a
                                 cache the learner's own target_period, which counts train steps, must be C / F */
    int64_t train_period;    /* F: steps for each train step; default 4 */
    int64_t prepopulation;   /* steps at random before step 1, at least the replay's min_size; default 50,000. Lane 0
                                 takes them, and then goes on at random until its episode ends, but takes no more than
                                 twice as many in all. With a cache of returns they must be more than its block_length;
                                 of a vector, in each environment */
    int64_t eval_period;     /* steps between evaluations, a multiple of C; 0: no evaluations; default 250,000 */
    int64_t eval_episodes;   /* episodes of an evaluation; default 30. Each has at most the max_steps of its
                                environment, or if that is 0 GPUR_EVALUATION_STEPS */
    float eval_epsilon;      /* epsilon in evaluations; default 0.05 */
    int32_t burst;           /* 1: before the first of every C steps C / F train steps, for which the lanes wait;
                                 `concurrent` must be 0. Default 0 */
    uint64_t seed;           /* of environments and exploration; default 0 */
    const char *env_options; /* given to each environment's init; NULL, the default: "" */
    void (*on_event)(void *user, const gpur_run_event *event); /* called in the thread that advances the run; NULL: not
                                                                   called. Events of each kind come in the same order
                                                                   each time */
    void *user;                                                /* given to on_event */
} gpur_run_config;

/* Sets every member to its default. `size` is sizeof(gpur_run_config). Any thread. GPUR_INVALID_ARGUMENT: NULL, or a
 * size below 8 or above 65,536. */
GPUR_API gpur_status gpur_run_config_init(gpur_run_config *config, uint64_t size);

/* The most fields of a replay that a preset specifies: obs, action, reward, next_obs, terminated, truncated; and
 * previous, where the learner has a cache of returns. */
enum { GPUR_RUN_FIELDS = 7 };

/*
 * Sets the members that a system specifies, in configs that were initialized, for an environment, of which it makes one
 * to ask for its spaces. Of `run` these are all but threads, seed, on_event and user. Other members keep their values.
 * The learner's math becomes FP32, as in the papers, and with "-small" AUTO: another one is set afterwards. Any thread.
 *
 *   "fast-dqn"         all constants of Daley & Amato 2021, table 5 and section 5, with the network of Mnih et al.
 *                      2015, for frames of 84 x 84 bytes
 *   "dqn-lambda-2019"  DQN(lambda) [Daley & Amato 2019] by the authors' code: 80,000 returns, drawn with replacement;
 *                      the network of Mnih et al. 2015 for frames of 84 x 84 bytes. For observations with one axis the
 *                      setting of their CartPole: two layers of 512 with tanh, and 5-step returns
 *   "vrc-2021"         the virtual replay cache [Daley & Amato 2021b] by the authors' code, for frames of 84 x 84 bytes
 *   "fast-dqn-small"   this library's own, for games like CartPole and MinAtar on a few cores: for images a convolution
 *                      of 16 filters of 3 x 3 and 128 units [Young & Tian 2019, section 4], for other observations two
 *                      layers of 128; Adam; C = 1,000; 5,000 steps of prepopulation; epsilon to 0.1 over 100,000 steps;
 *                      a replay of 100,000
 *   "dqn-lambda-2019-small", "vrc-2021-small"
 *                      these two systems with the sizes and the learning rate of "fast-dqn-small", and 8,000 returns
 *
 * Except for their CartPole, the papers on DQN(lambda) state no lambda: set learner->returns.lambda, or another
 * estimator, after the call; gpur_dqn_create refuses the -1 that is there. Epsilon of "vrc-2021" and its small
 * relative falls from 1 at the first step of the prepopulation on: learner->exploration has what is left of that line
 * after it.
 *
 * An environment that shows one image without channels gets stacks of 4 (GPUR_LAYOUT_FRAMES). The axes of an image with
 * channels are (height, width, channels), unless gpur_image_layout tells that they are (channels, height, width).
 *
 *   type, options  the environment; run->env_options becomes `options`, which must exist until gpur_run_create
 *   fields         (GPUR_RUN_FIELDS) receives the schema, of replay->field_count fields; replay->fields points to it
 *                  until gpur_replay_create
 *
 *   GPUR_INVALID_ARGUMENT  no such name, an environment that the preset cannot take, or NULL
 */
GPUR_API gpur_status gpur_run_preset(const char *name, const gpur_env_type *type, const char *options,
                                     gpur_field fields[GPUR_RUN_FIELDS], gpur_replay_config *replay,
                                     gpur_dqn_config *learner, gpur_run_config *run);

/* The same for a type that steps many at once, for gpur_run_create_vector. */
GPUR_API gpur_status gpur_run_preset_vector(const char *name, const gpur_vector_env_type *type, const char *options,
                                            gpur_field fields[GPUR_RUN_FIELDS], gpur_replay_config *replay,
                                            gpur_dqn_config *learner, gpur_run_config *run);

/*
 * Creates a run: W environments and one for evaluations, a writer into the replay for each of the W, and the threads.
 * The environments are made in the order of the lanes, that for evaluations last; each has a seed drawn from the run's
 * seed. Epsilon follows the learner's `exploration`, by the global step. The learner, its replay and the type of
 * environment must outlive the run. While the run exists, no other code may write to the replay or train the learner.
 *
 *   learner  its network must have the environment's number of actions; its replay must store the environment's
 *            observations, with GPUR_LAYOUT_FRAMES as stacks. If it has trained before, its train steps so far must be
 *            a multiple of its target_period, because it counts them on; not so with a cache of returns
 *   type     as found by gpur_env_find, or the caller's own with all functions, except save and load if save_bytes is 0
 *   config   settings; read before the call returns
 *   run      receives the handle, or NULL if the call fails; destroy it with gpur_run_destroy
 *
 *   GPUR_INVALID_ARGUMENT  a value out of its range, settings that do not go together (the message has both), an
 *                          environment without discrete actions or with other observations, an environment's refusal
 *                          (the message names the lane), a type without a function that it must have, or NULL
 *   GPUR_OUT_OF_MEMORY     not enough memory, or no more threads
 */
GPUR_API gpur_status gpur_run_create(gpur_learner *learner, const gpur_env_type *type, const gpur_run_config *config,
                                     gpur_run **run);

/*
 * The same with one environment that steps all lanes at once, and is made with a seed drawn from the run's. It needs
 * `synchronized`, and without `concurrent` and `burst` a train_period that is a multiple of num_envs. The prepopulation
 * takes random steps of all lanes; gpur_run_advance takes multiples of num_envs; after gpur_run_load all lanes begin
 * new episodes.
 *
 *   eval_type  for evaluations; NULL: `type` again, with one environment
 */
GPUR_API gpur_status gpur_run_create_vector(gpur_learner *learner, const gpur_vector_env_type *type,
                                            const gpur_env_type *eval_type, const gpur_run_config *config,
                                            gpur_run **run);

/* Stops the threads, ends open episodes as gpur_writer_destroy does, and frees the run. Transitions in the logs that
 * were not published are dropped. Not to be called by on_event. NULL does nothing. */
GPUR_API void gpur_run_destroy(gpur_run *run);

/*
 * Takes `steps` more steps, after the prepopulation if this is the first call, and returns when they are taken and no
 * train step runs. The split into calls changes nothing in the results. With `concurrent` or `burst` all C / F train
 * steps of a target period are done once its first step is taken, also in a run that ends before the period does.
 *
 *   GPUR_INVALID_ARGUMENT  steps below 0, NULL, or a run that has ended by an error or by gpur_run_stop; also what an
 *                          environment refused, or showed that is NaN or infinite (the check_finite of the replay):
 *                          the message names the lane and the step; or the evaluation; or the vector and its steps; or
 *                          the learner has diverged (learner.h), of which the call returns with success never
 *   GPUR_INTERRUPTED       gpur_run_stop was called
 *   GPUR_TOO_FEW           the prepopulation gave the replay less than its min_size, as few of its episodes had ended
 *   others                 those of gpur_learner_train and gpur_writer_step_ex
 *
 * An error in any thread stops the others at their next step, the trainer after a refresh and 32 train steps at most.
 * After any of these the run has ended: it can be read and destroyed. The learner stays usable.
 */
GPUR_API gpur_status gpur_run_advance(gpur_run *run, int64_t steps);

/* Evaluates the network as it is now, and waits for it; on_event gets the result, unless gpur_run_stop was called. Only
 * between two calls of gpur_run_advance. Errors are those of gpur_run_advance; GPUR_INVALID_ARGUMENT also if
 * eval_episodes is 0. */
GPUR_API gpur_status gpur_run_evaluate(gpur_run *run);

/*
 * Makes gpur_run_advance return after the steps that the environments are taking now, and a refresh and 32 train steps
 * at most. The logs are then published, and on_event gets the episodes in them, also those of a target period that has
 * not ended: gpur_run_stop and gpur_run_advance(run, 0) end a run after any number of steps. Any thread; also safe in a
 * signal handler. NULL does nothing.
 */
GPUR_API void gpur_run_stop(gpur_run *run);

/* What gpur_run_get_stats reports. Counts of steps, episodes and evaluations go on from a loaded file; seconds and
 * inferences do not. Seconds are sums over the threads that did the work. */
typedef struct gpur_run_stats {
    uint64_t size;           /* sizeof(gpur_run_stats), as the caller was compiled: set it before the call */
    int64_t steps;           /* environment steps taken, without the prepopulation */
    int64_t prepopulated;    /* environment steps of the prepopulation taken */
    int64_t train_steps;     /* train steps done */
    int64_t episodes;        /* whole games that have ended, as far as they are published */
    int64_t inferences;      /* forward passes for acting */
    int64_t inferred;        /* observations in them */
    int64_t evaluations;     /* evaluations that have ended */
    double recent_return;    /* mean return of the last 100 episodes; NaN before the first one */
    double evaluated_return; /* mean return of the last evaluation; NaN before the first one */
    double seconds;          /* time in gpur_run_advance */
    double env_seconds;      /* in step and reset of environments */
    double infer_seconds;    /* in inferences for acting */
    double train_seconds;    /* in training and refreshes, in the trainer's thread */
    double publish_seconds;  /* in appending the logs to the replay */
    double copy_seconds;     /* in copying weights for acting */
    double eval_seconds;     /* in evaluations, as far as their episodes have ended */
    int64_t eval_episode;    /* the episode of an evaluation that is played now, counted from 1; 0: none is */
    int64_t eval_cut;        /* episodes of evaluations that were truncated after GPUR_EVALUATION_STEPS, since the run
                                was made */
} gpur_run_stats;

/* Reads the statistics. Any thread; does not wait for steps. GPUR_INVALID_ARGUMENT: NULL, or `stats->size` was not
 * set. */
GPUR_API gpur_status gpur_run_get_stats(gpur_run *run, gpur_run_stats *stats);

/*
 * Saves the run to a folder, which is created if it is not there: the replay ("replay.safetensors"), the learner
 * ("learner.safetensors"), and the lanes ("run.safetensors", written last). Only between two calls of gpur_run_advance,
 * where the steps taken are a multiple of C.
 *
 * gpur_run_load restores it into a run with the same settings (`threads` may differ) on a replay and a learner with the
 * same settings, before its first gpur_run_advance. Environments that can save their state go on with the same bits.
 * Others are closed and made again, with seeds drawn from the run's seed, the lane and the steps taken, so that the
 * episodes before the save are not repeated. They begin a new episode in each lane; the open one ends in the replay as
 * if truncated, or with `whole_episodes` is dropped.
 *
 *   GPUR_INVALID_ARGUMENT  the steps taken are no multiple of C; load: the run has taken steps, or has other settings
 *                          than the one that was saved, env_options included; NULL
 *   GPUR_FILE_ERROR        load: the files are of different saves, because one did not come to its end; others as in
 *                          gpur_replay_save and gpur_replay_load
 *   GPUR_INTERRUPTED       save: gpur_run_stop was called
 *   others                 those of gpur_replay_save and gpur_replay_load, and what an environment refused
 *
 * What gpur_run_load refuses by run.safetensors, or because of different saves, changes nothing. If it fails later, the
 * message says so, and the run has ended; if an environment refused, the replay and the learner have not changed.
 */
GPUR_API gpur_status gpur_run_save(gpur_run *run, const char *folder);
GPUR_API gpur_status gpur_run_load(gpur_run *run, const char *folder);

#ifdef __cplusplus
}
#endif
#endif
