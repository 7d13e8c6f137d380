/* SPDX-License-Identifier: MIT */
/*
 * Runs: whole trainings, with environments that act by a network and the training of that network, in threads of the
 * library. A run is made by gpur_fast_dqn_create (fast_dqn.h), gpur_apex_create (apex.h), gpur_ga3c_create (ga3c.h) or
 * gpur_offline_create (offline.h), and then:
 *
 *     gpur_run_advance(run, 100000, 0);   // takes so many environment steps, and trains
 *     gpur_run_evaluate(run, 30, 0, &result);
 *     gpur_run_save(run, "folder");
 *     gpur_run_destroy(run);
 *
 * examples/runs.c is such a program, by the name of a preset.
 *
 * A step of an offline run, which has no environments that train, is a train step: wherever settings, events,
 * statistics and calls of such a run count environment steps, they count these.
 *
 * One thread at a time advances, evaluates, saves and loads a run. Any thread may read statistics and stop it
 * meanwhile.
 *
 * When a thread of the run fails, when an environment refuses something, or when the learner has diverged, the run
 * ends: gpur_run_advance returns the first such error, and from then on the run can only be read and destroyed. The
 * learner and its replay stay usable. An argument that is refused changes nothing, and an error of gpur_run_evaluate
 * ends its evaluation alone.
 */
#ifndef GPUREPLAY_RUN_HANDLE_H
#define GPUREPLAY_RUN_HANDLE_H

#include "gpureplay/env.h"
#include "gpureplay/policy.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A run, which gpur_run_destroy ends. */
typedef struct gpur_run gpur_run;

/* Kinds of events. */
enum {
    GPUR_RUN_EPISODE = 0,    /* an episode has ended: a whole game, also where each life is an episode of the learner */
    GPUR_RUN_EVALUATION = 1, /* an evaluation has ended */
    GPUR_RUN_TUNED = 2,      /* the tuner of GA3C has measured its numbers of threads */
    GPUR_RUN_STARTED = 3,    /* an actor of Ape-X has begun */
    GPUR_RUN_ENDED = 4,      /* an actor of Ape-X has ended: asked to, by an error, or as its process died */
};

/* The argument of on_event, a member of a run's settings. on_event is called in the thread that advances or evaluates,
 * at the latest when that call returns. Events of fast DQN come in the same order each time. on_event may call
 * gpur_run_get_stats, gpur_run_stop, gpur_apex_set_actors and gpur_ga3c_set_counts, and read the learner. */
typedef struct gpur_run_event {
    uint64_t size;           /* sizeof(gpur_run_event) of the library */
    int32_t kind;            /* GPUR_RUN_* */
    int32_t env_index;       /* EPISODE: its environment, from 0 on; in GA3C its agent. EPISODE, STARTED and ENDED of
                                Ape-X: the actor, or GPUR_APEX_EVALUATOR. Else -1 */
    int64_t env_steps;       /* EPISODE of fast DQN: the global step that ended it, 0 or less in the prepopulation; else
                                steps of all environments so far. EVALUATION: steps taken when its weights were
                                copied */
    int64_t train_steps;     /* train steps of the run so far. EVALUATION: when its weights were copied */
    int64_t length;          /* EPISODE: its steps. EVALUATION: those of all its episodes. ENDED: those of the actor
                                since it began */
    int64_t episodes;        /* EPISODE: 1. EVALUATION: its episodes. Else 0 */
    double mean_return;      /* EPISODE: the sum of its rewards, unclipped and not discounted. EVALUATION: the mean
                                over its episodes */
    double return_deviation; /* EVALUATION: standard deviation over its episodes; else 0 */
    int64_t version;         /* EVALUATION: gpur_policy_version of its weights: the learner's train steps, also those
                                before this run */
    gpur_policy *policy;     /* EVALUATION: has the weights that were evaluated until the callback returns. To keep
                                them, call gpur_policy_save or gpur_policy_get_weights there. Else NULL */
    gpur_run *run;           /* whose event it is */
    gpur_learner *learner;   /* of the run: statistics and weights of it can be read in the callback */
    int32_t agents, predictors, trainers; /* TUNED: the numbers that were measured */
    int32_t accepted;                     /* TUNED: 1: they stay; 0: those before come back */
    double rate;                          /* TUNED: rollouts trained on a second */
    double loss;                          /* of the last train step that the host knows of, as in gpur_run_stats */
    int64_t incarnation;                  /* of Ape-X's actors: how often the actor was started before */
    int64_t lost_blocks;                  /* ENDED: blocks that it made, by its own count, and that were not appended */
    int64_t lost_rows;                    /* ENDED: transitions that its steps began, by its own count, and that were
                                             not appended: in these blocks, in its unfinished block, and not complete */
    float epsilon;                        /* of Ape-X's actors; of action vectors sigma */
    int32_t asked;                        /* ENDED: 1 if it was asked to end */
    const char *error;                    /* ENDED by an error: what it was, or how its process ended, and when it is
                                             started again if it has to wait; else "". Valid during the call */
} gpur_run_event;

/* The settings that all runs have: environments, seed, evaluations and events. All environments are of one type, are
 * made with the same options, and must have the same observations and actions. */
typedef struct gpur_run_config {
    uint64_t size;                      /* sizeof(gpur_run_config), as the caller was compiled */
    const gpur_env_type *type;          /* found by gpur_env_find, or the caller's own with all functions, except save
                                           and load if save_bytes is 0. It must outlive the run. Default NULL */
    const gpur_vector_env_type *vector; /* fast DQN: one environment that steps all at once, in place of single ones.
                                           Evaluations then play in `type`, or where that is NULL in vectors of one.
                                           NULL, the default: none */
    const char *env_options;            /* given to each environment's init; NULL, the default: "". Copied */
    uint64_t seed;                      /* of environments and exploration; default 0 */
    int64_t eval_period;                /* environment steps between evaluations; fast DQN and Ape-X train on
                                           while one is played. Fast DQN: a multiple of target_period. Ape-X: if one
                                           block passes several multiples, there is one evaluation for all of them.
                                           0: only gpur_run_evaluate evaluates. Default 250,000 */
    int64_t eval_episodes;              /* episodes of an evaluation; 0: there are none. Default 30 */
    float eval_epsilon;                 /* epsilon in evaluations, 0 to 1; default 0.05. Without effect in GA3C, which
                                           draws actions, and on action vectors, which then have no noise */
    int32_t eval_envs;                  /* environments in which an evaluation plays at the same time, with one
                                           inference for all of them; 1 to 1,024; 0, the default: 8, or as many as
                                           eval_episodes if these are fewer. GA3C: at most max_prediction_batch */
    void (*on_event)(void *user, const gpur_run_event *event); /* NULL, the default: not called */
    void *user;                                                /* given to on_event */
} gpur_run_config;

/* Sets every member to its default. `size` is sizeof(gpur_run_config). Any thread. GPUR_INVALID_ARGUMENT: NULL, or a
 * size below 8 or above 65,536. */
GPUR_API gpur_status gpur_run_config_init(gpur_run_config *config, uint64_t size);

/* Whose settings a preset has: gpur_fast_dqn_preset, gpur_apex_preset or, for the last two, gpur_ga3c_preset sets
 * them. */
enum {
    GPUR_PRESET_FAST_DQN = 0,
    GPUR_PRESET_APEX_DQN = 1,
    GPUR_PRESET_APEX_DPG = 2,
    GPUR_PRESET_GA3C = 3,
    GPUR_PRESET_A3C = 4,         /* A3C and A2C, which have no queues */
    GPUR_PRESET_OFFLINE_DQN = 5, /* their learners have rows alone: offline.h. Trainings set them */
    GPUR_PRESET_OFFLINE_DPG = 6,
    GPUR_PRESET_DPG = 7,         /* runs of fast_dqn.h by a learner of DPG: gpur_dpg_preset sets them */
    GPUR_PRESET_SAC = 8,         /* likewise by one of SAC: gpur_sac_preset */
    GPUR_PRESET_OFFLINE_SAC = 9, /* as OFFLINE_DPG */
};

/* Returns the name of preset `index`, counted from 0, or NULL if there are not so many. *system: GPUR_PRESET_*; NULL:
 * it is not wanted. Any thread. */
GPUR_API const char *gpur_preset_name(int32_t index, int32_t *system);

/* Destroys the run: ends all threads, each after its step of the environment or after at most 32 train steps, and kills
 * actors' processes that have not ended after 5 seconds. Steps that are not in the replay yet, and rollouts that are
 * not complete, are lost. Not to be called by a callback. NULL does nothing. */
GPUR_API void gpur_run_destroy(gpur_run *run);

/*
 * Takes so many more environment steps, of all environments together, and does the train steps that belong to them.
 * When it returns, all events have been delivered, and all evaluations that became due, also one that is due after the
 * last of these steps.
 *
 * Fast DQN and GA3C take exactly `env_steps`; after the call they neither act nor train. In Ape-X the call returns when
 * so many steps of actors were received, or so many train steps were done, whichever is first. It may have received
 * more steps, by less than a block and n_step. Its actors go on between calls until their blocks fill what the
 * connection holds, and then wait.
 *
 *   env_steps    0 or more; of a vector environment a multiple of num_envs. Ape-X, 0: no limit of this kind
 *   train_steps  0: no limit. Fast DQN and GA3C train as their environment steps say, and take no other number
 *
 * With 0 and 0 the call finishes what was begun. Fast DQN: a period in which it was stopped. Fast DQN and GA3C: an
 * evaluation that was stopped. Ape-X: it waits for the actors that were asked to end (gpur_apex_set_actors), and takes
 * what they still send, without training and without its limiter; an evaluation that was stopped goes on by itself, and
 * the next call that takes steps or evaluates delivers it.
 *
 *   GPUR_INVALID_ARGUMENT  a number out of its range; NULL; a run that has ended by an error; what an environment
 *                          refused, or showed that is NaN or infinite (check_finite): the message names the environment
 *                          and its step, or the actor; a learner that has diverged (the message is as learner.h says);
 *                          no train_steps in a run of Ape-X with no actors of any kind, which would never return
 *   GPUR_INTERRUPTED       gpur_run_stop was called; the run can be advanced again
 *   GPUR_TOO_FEW           fast DQN: the prepopulation gave the replay less than its min_size, as few of its episodes
 *                          had ended
 *   others                 the first error of any thread
 */
GPUR_API gpur_status gpur_run_advance(gpur_run *run, int64_t env_steps, int64_t train_steps);

/*
 * Stops the present gpur_run_advance or gpur_run_evaluate, which then returns GPUR_INTERRUPTED soon: after the steps
 * that environments are taking, and 32 train steps and a refresh at most. Outside of such a call it ends the next one.
 * The run can be advanced again, and goes on as if it had not been stopped: fast DQN and A2C with the same bits.
 * on_event has then got all episodes that had ended. An evaluation that gpur_run_evaluate played is given up; one
 * beside the training goes on in the next gpur_run_advance, and in Ape-X also before. Any thread; also safe in a signal
 * handler. NULL does nothing.
 */
GPUR_API void gpur_run_stop(gpur_run *run);

/*
 * Plays whole games with the learner's present weights, and waits for them. Only between two calls of gpur_run_advance;
 * the training is not changed by it. A game has at most the max_steps of its environment, or if that is 0
 * GPUR_EVALUATION_STEPS.
 *
 *   episodes  1 or more; 0: eval_episodes
 *   greedy    1: the best action always. 0: fast DQN and Ape-X explore with eval_epsilon, and GA3C draws actions, as
 *             agents do
 *   result    receives the event, which on_event gets, too, with policy NULL; NULL: it is not wanted
 *
 *   GPUR_INVALID_ARGUMENT  the run was made with eval_episodes 0; and what this is in gpur_run_advance
 *   GPUR_UNAVAILABLE       Ape-X: the actor that evaluates was killed or failed again and again
 *   others                 those of gpur_run_advance. After all of them the run can be advanced
 */
GPUR_API gpur_status gpur_run_evaluate(gpur_run *run, int64_t episodes, int32_t greedy, gpur_run_event *result);

/* Counts and times of fast DQN alone. */
typedef struct gpur_fast_dqn_stats {
    int64_t prepopulated; /* environment steps of the prepopulation */
    int64_t inferences;   /* forward passes for acting */
    int64_t inferred;     /* observations in them */
    double infer_seconds; /* in inferences for acting */
    double flush_seconds; /* in appending the logs to the replay */
    double copy_seconds;  /* in copying weights for acting */
    int64_t reserved[10];
} gpur_fast_dqn_stats;

/* Bins of the histogram of the policy lag: 0, 1, ... 62 updates, and 63 or more. */
enum { GPUR_GA3C_LAGS = 64 };

/* Counts and times of GA3C, A3C and A2C alone. Seconds of agents, predictors and trainers are sums over the threads. */
typedef struct gpur_ga3c_stats {
    int64_t predictions;          /* requests answered */
    int64_t prediction_batches;   /* forward passes for them */
    int64_t trained_rows;         /* steps in train steps */
    int64_t training_batches;     /* rollouts in them, which is what the paper counts as TPS */
    int64_t refused_rollouts;     /* dropped since the queue was full */
    int64_t overwritten_rollouts; /* dropped from the queue for newer ones */
    int64_t left_rollouts;        /* open or waiting ones of agents that were asked to end */
    int64_t dropped_rows;         /* steps of all of these, and with drop_terminal terminal steps */
    int64_t largest_lag;          /* largest policy lag of a trained step */
    int64_t lag_sum;              /* sum of the policy lags of all trained steps */
    int64_t lags[GPUR_GA3C_LAGS]; /* trained steps by policy lag: updates between the weights that chose the
                                             action and those that the update began with */
    double mean_lag;
    int64_t queue_lag;                    /* the largest number of updates while a rollout was in the training queue */
    int64_t queue_lag_bound;              /* with GPUR_QUEUE_WAIT it is never above this [section 4.4]: queue_room,
                                             agents that wait, and batches of trainers. 0 without a queue */
    int32_t agents, predictors, trainers; /* now */
    int32_t reserved0;                    /* 0 */
    double prediction_queue;              /* mean number of requests that a predictor found */
    double training_queue;                /* mean length before a rollout was removed, at most queue_room */
    double wait_seconds;                  /* of agents waiting for replies, or acting with their own model */
    double queue_seconds;                 /* of agents waiting for room in the training queue */
    double predict_seconds;               /* of predictors in forward passes */
    double predictor_seconds;             /* of predictors with requests at hand, outside of forward passes */
    double policy_loss, value_loss, entropy, mean_value, gradient_norm, learning_rate; /* of the last train step, as in
                                                                                          gpur_actor_critic_losses */
    int64_t reserved[10];
} gpur_ga3c_stats;

/* Counts and times of Ape-X alone. */
typedef struct gpur_apex_stats {
    int64_t learned;        /* transitions in train steps: train_steps x batch_size */
    int64_t blocks;         /* received and appended */
    int64_t rows;           /* transitions in them, each counted once, also with `replicate` */
    int64_t inserted;       /* those of them that came when training could begin, or later; after a load with `refill`
                               since the replay was full again */
    int64_t bytes;          /* of these blocks */
    int64_t refused_blocks; /* damaged, of another format, or repeated */
    int64_t lost_blocks;    /* by gaps in their sequence, and at the end of actors by their own count */
    int64_t lost_rows;      /* as in gpur_run_event, of all actors that have ended; not of remote actors */
    /* Actors that started, and actors that ended though nobody asked them to. A remote actor whose
     * blocks the caller brings counts as started with gpur_apex_receive_start, or with the first block of an
     * incarnation; the one before it has then died. */
    int64_t starts, deaths;
    int64_t actors;              /* running actors, and those of remote_actors heard from in the last minute */
    int64_t broadcasts;          /* versions of the weights that actors were given */
    int64_t pulled;              /* copies of them that actors took; not of remote actors */
    int64_t trims;               /* calls of gpur_replay_trim */
    int64_t limiter_timeouts;    /* waits for the limiter that were too long */
    double broadcast_seconds;    /* in broadcasting weights */
    double receive_seconds;      /* in checking and appending blocks */
    double learner_wait_seconds; /* the learner's, for min_size and for the limiter */
    double actor_seconds;        /* that all actors together have run, by their own clocks, which go on between calls of
                                    gpur_run_advance; without the evaluator and remote actors. Of these env_seconds are
                                    in their environments */
    double actor_infer_seconds;  /* of these in inference */
    double actor_wait_seconds;   /* in handing over blocks: waiting for the limiter or for room; and, of actors in
                                    threads, appending them */
    double weights_age;          /* median age of the weights that acted over the last 100 blocks: train steps done when
                                    the block was appended, less those done when the weights were broadcast that chose
                                    its last action. NaN before the first block */
    int64_t reserved[10];
} gpur_apex_stats;

/* Counts and times of a run. Counts go on from a loaded folder, unless a comment says otherwise; seconds, and
 * numbers of forward passes and copies for acting in fast DQN, do not. Seconds are sums over the threads that did the
 * work. */
typedef struct gpur_run_stats {
    uint64_t size;           /* sizeof(gpur_run_stats), as the caller was compiled: set it before the call */
    int64_t env_steps;       /* environment steps taken, without a prepopulation and evaluations. Ape-X: that actors
                                have reported with their blocks; of remote actors the steps that begin the transitions
                                of their blocks */
    int64_t train_steps;     /* train steps done by this run */
    int64_t episodes;        /* whole games that have ended, as far as they were delivered */
    int64_t evaluations;     /* evaluations that have ended */
    int64_t eval_episode;    /* 1 more than the episodes that have ended of the evaluation that is played now; 0: none
                                is */
    int64_t eval_cut;        /* games of evaluations that were truncated after GPUR_EVALUATION_STEPS, since the run was
                                made */
    int64_t evaluated_steps; /* env_steps of the last evaluation; 0 before the first one */
    double evaluated_return; /* mean return of the last evaluation; NaN before the first one */
    double recent_return;    /* mean return of the last 100 episodes, in Ape-X of the actor with the smallest epsilon;
                                NaN before the first one */
    double loss;             /* of the last train step that the host knows of; for GA3C policy_loss + value_loss */
    double seconds;          /* in calls of gpur_run_advance that have returned */
    double env_seconds;      /* in step and reset of environments; evaluations and remote actors apart */
    double train_seconds;    /* in train steps and refreshes; in GA3C also of trainers that wait for another's step */
    double eval_seconds;     /* in evaluations */
    int64_t reserved[17];    /* 0 */
    gpur_fast_dqn_stats fast_dqn; /* zeros in other runs */
    gpur_ga3c_stats ga3c;         /* zeros in other runs */
    gpur_apex_stats apex;         /* zeros in other runs */
} gpur_run_stats;

/* Reads the statistics. Any thread; does not wait for steps. GPUR_INVALID_ARGUMENT: NULL, or `stats->size` was not
 * set. */
GPUR_API gpur_status gpur_run_get_stats(gpur_run *run, gpur_run_stats *stats);

/*
 * Saves the run to a folder, which is created if it is not there: the learner ("learner.safetensors"), where there is
 * one the replay ("replay.safetensors"), and the run itself ("run.safetensors", written last). Only between two calls
 * of gpur_run_advance; of fast DQN where the steps taken are a multiple of target_period, and after gpur_run_stop only
 * when gpur_run_advance, by 0 steps or more, has finished what was begun.
 *
 * gpur_run_load restores it, before the first gpur_run_advance, into a run of the same system with the same
 * environments and the settings that say what is learned, on a learner and a replay with the same settings; numbers of
 * threads may differ. Environments of fast DQN that can save their state go on with the same bits. All others begin new
 * episodes, with seeds that were not used before; open episodes end in the replay as if truncated, or with
 * `whole_episodes` are dropped.
 *
 *   refill  Ape-X: 1: the replay stays empty, and training goes on when actors have filled it to its min_size again
 *           [Horgan et al. 2018, appendix F, Failure Tolerance]. 0: the replay is restored, as in other runs always
 *
 *   GPUR_INVALID_ARGUMENT  save: fast DQN has taken no multiple of target_period steps. load: the run has taken steps,
 *                          or has other settings than the one that was saved, options of environments included. NULL
 *   GPUR_FILE_ERROR        load: the files are of different saves, because one did not come to its end, or of an
 *                          earlier version of the library; others as in gpur_learner_save and gpur_learner_load
 *   others                 those of gpur_replay_save and gpur_replay_load, and what an environment refused
 *
 * If gpur_run_load refuses run.safetensors, or files of different saves, nothing changes; in GA3C nothing changes
 * whatever it refuses. If it fails later, the message says so, and the run has ended; if an environment refused, the
 * replay and the learner have not changed.
 */
GPUR_API gpur_status gpur_run_save(gpur_run *run, const char *folder);
GPUR_API gpur_status gpur_run_load(gpur_run *run, const char *folder, int32_t refill);

#ifdef __cplusplus
}
#endif
#endif
