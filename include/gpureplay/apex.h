/* SPDX-License-Identifier: MIT */
/*
 * Ape-X on one machine [Horgan et al. 2018]: many actors, each with an environment, an exploration and a copy of the
 * weights of its own, send blocks of transitions (block.h) with initial priorities to a learner, which draws from its
 * replay by priority. Actors and learner run beside each other without waiting for each other, so a run is not the same
 * bits each time: what was acted by which weights depends on the timing.
 *
 * Actors are threads of this process, or processes that it starts. A process's connection is a pair of sockets, of
 * which one end is its file descriptor 3; its weights come through shared memory without a name. So when a process
 * dies, at whatever moment, nothing of it is left behind, and what it had not sent is counted as lost.
 *
 *     actor                                                    learner
 *     reset, act, step, n-step returns, initial priorities
 *     a block of 50 transitions  ── socket or call ──────────► check, append ─► replay
 *     every 100 steps: newest weights ◄── shared memory ────── train, broadcast weights, trim
 *
 * Blocks may also come from remote actors, which others start, on this machine or elsewhere. They either leave files in
 * a folder that both sides see (gpur_apex_work), or hand blocks to functions of the caller, who brings them to the run
 * (gpur_apex_act, gpur_apex_receive_block).
 *
 * Three kinds of threads belong to a run: the one that calls gpur_apex_advance trains; the supervisor's starts actors
 * and takes blocks from processes and files; and each actor of this process has one.
 */
#ifndef GPUREPLAY_APEX_H
#define GPUREPLAY_APEX_H

#include "gpureplay/block.h"
#include "gpureplay/dpg.h"
#include "gpureplay/dqn.h"
#include "gpureplay/env.h"
#include "gpureplay/policy.h"
#include "gpureplay/run_handle.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A run. One thread at a time advances and saves it; any thread may read statistics, set the number of actors and stop
 * it meanwhile. */
typedef struct gpur_apex gpur_apex;

/* The most actors of a run, and the number of the evaluator: the actor that plays evaluations. */
enum { GPUR_APEX_MAX_ACTORS = 1024, GPUR_APEX_EVALUATOR = 1024 };

/* What happened in a run. */
enum {
    GPUR_APEX_EPISODE = 0,    /* an episode of an actor has ended: a whole game, also where each life is an episode of
                                 the replay */
    GPUR_APEX_EVALUATION = 1, /* an evaluation has ended */
    GPUR_APEX_STARTED = 2,    /* an actor has begun */
    GPUR_APEX_ENDED = 3,      /* an actor has ended: asked to, by an error, or as its process died */
};

typedef struct gpur_apex_event {
    uint64_t size;           /* sizeof(gpur_apex_event) of the library */
    int32_t kind;            /* GPUR_APEX_* */
    int32_t actor;           /* 0 to actors - 1, or GPUR_APEX_EVALUATOR */
    int64_t incarnation;     /* how often the actor was started before */
    int64_t env_steps;       /* environment steps of all actors received so far; an evaluation: when it was begun */
    int64_t train_steps;     /* train steps done so far; likewise */
    int64_t length;          /* an episode: its steps. An evaluation: of all its episodes. ENDED: environment steps of
                                this incarnation */
    int64_t episodes;        /* 1; an evaluation: its episodes */
    double mean_return;      /* an episode: the sum of its rewards, unclipped and not discounted; an evaluation: mean
                                over its episodes */
    double return_deviation; /* an evaluation: standard deviation over its episodes; else 0 */
    float epsilon;           /* the actor's; of action vectors its sigma */
    int32_t asked;           /* ENDED: 1 if it was asked to end */
    int64_t lost_blocks;     /* ENDED: blocks that it made, by its own count, and that were not appended */
    int64_t lost_rows;       /* ENDED: transitions that its steps began, by its own count, and that were not appended:
                                in these blocks, in its unfinished block, and not complete */
    const char *error;       /* ENDED by an error: what it was, or how its process ended, and when it is started again
                                if it has to wait; else "". Valid during the call */
} gpur_apex_event;

/* Settings of gpur_apex_create. gpur_apex_config_init sets the defaults, which are those of Horgan et al. 2018, section
 * 4.1 and appendices C and F, except that there are 8 actors. */
typedef struct gpur_apex_config {
    uint64_t size;              /* sizeof(gpur_apex_config), as the caller was compiled. gpur_apex_create copies all
                                     that members point to */
    int32_t actors;             /* N, 1 to 1,024; beside `folder` or remote_actors also 0. Given to a remote actor: the
                                     number of all remote actors, to which its epsilon belongs. Default 8 */
    int32_t processes;          /* 1: each actor is a process, which `command` starts. 0, the default: a thread */
    const char *const *command; /* with `processes`: the words of the command, then NULL. The program is searched for
                                     in PATH. It must call gpur_apex_serve with the same settings of the replay and of
                                     the network. It has a process group of its own, so that a terminal's interrupt
                                     reaches the learner alone. If the program is /proc/self/exe, argv[0] becomes
                                     "gpureplay actor 3", say, or "gpureplay evaluator" */
    float epsilon_base;         /* actor i acts with epsilon_base^(1 + epsilon_exponent i / (N - 1)), if N = 1 with
                                     epsilon_base; 0 to 1, default 0.4 */
    float epsilon_exponent;     /* 0 or more; default 7 */
    const float *epsilons;      /* (epsilon_count) actor i acts with epsilons[i mod epsilon_count] instead [appendix
                                     B]; NULL, the default: the ladder */
    int32_t epsilon_count;
    int32_t block_rows;         /* transitions of a block, 1 to 65,536; default 50. There are fewer in it where
                                   rows_under_way says so, and at the end of an actor */
    int32_t compression;        /* level of Zstandard for blocks, 1 to 19; 0, the default: none */
    int32_t initial_priorities; /* 1, the default: |TD error| by the actor. 0: none, so that the replay gives the
                                     first one, as in Schaul et al. 2016 (gpur_replay_config.first_priority) */
    int32_t replicate;          /* each block is appended so often [appendix A]; 1 to 64, default 1 */
    int64_t pull_period;        /* an actor takes the newest weights after so many of its steps, and with
                                   samples_per_insert also after each block; default 100 */
    int64_t max_episode_steps;  /* an actor truncates episodes after so many steps; 0: never. Default 12,500, which
                                     are 50,000 frames of Atari */
    int64_t broadcast_period;   /* train steps between two broadcasts of weights to the actors; default 10 */
    int64_t soft_capacity;      /* gpur_replay_trim is called with it every trim_period train steps; 0, the default:
                                     only the replay's capacity limits it. At least as many as max_batch or, unless the
                                     replay samples without replacement, half the capacity, if that is less */
    int64_t trim_period;        /* default 100 */
    double samples_per_insert;  /* transitions learned for each transition received, after min_size; the side that is
                                     ahead waits. Then an actor goes on when its block was appended, and not before, so
                                     that no blocks wait and get old. 0, the default: nobody waits */
    double limiter_band;        /* how far a side may be ahead of the other before it waits, in transitions learned: at
                                     least batch_size, which a train step adds, and samples_per_insert x block_rows,
                                     which a block asks for. 0, the default: 10 times the larger of the two */
    double limiter_timeout;     /* seconds after which a wait ends all the same, for one train step or one block, and
                                     is counted; above 0, default 10 */
    int64_t eval_episodes;      /* episodes of an evaluation. They are played by one more actor, which adds nothing to
                                     the replay, with the weights that were the newest when the evaluation began; it
                                     waits in between. 0, the default: there is none */
    int64_t eval_period;        /* environment steps between the beginnings of evaluations, if the one before has ended;
                                     0: only gpur_apex_finish evaluates. Default 250,000 */
    float eval_epsilon;         /* default 0.4^7 = 0.0016384 [appendix B] */
    int32_t restarts;           /* 1, the default: an actor that died is started again. If it died early, that is within
                                     a minute after its start and before anything of it was received, it is started
                                     after a wait: 0.05 s, and twice as long each time, at most a minute. The run ends
                                     with an error when an actor failed early 5 times in a row, or when every actor died
                                     early 5 times in a row, or, whatever `restarts` is, when an observation or reward
                                     is NaN or infinite (the replay's check_finite). An actor whose process is killed by
                                     a signal has died, but not failed. 0: no actor is started again. The run ends with
                                     an error when one fails; when the process of one was killed it goes on, as long
                                     as there is another actor */
    uint64_t seed;              /* of environments and exploration; default 0 */
    const char *env_options;    /* given to each environment's init; NULL, the default: "" */
    void (*on_event)(void *user, const gpur_apex_event *event); /* called in the thread that advances; NULL: not
                                                                    called */
    void *user;                                                 /* given to on_event */
    /* Where files of remote actors come from: see gpur_apex_work. It is made if it is not there, and belongs to one
     * learner at a time. NULL, the default: none. */
    const char *folder;
    /* Of a learner of DPG, whose actors act by vectors: the standard deviation of the noise of each component, whose
     * range is -1 to 1; 0 or more, default 0.3. Epsilons, eval_epsilon included, have no effect then, and the evaluator
     * has no noise. */
    float sigma;
    /* Actors elsewhere, whose blocks the caller brings: see gpur_apex_act. Remote actor i has the epsilon of actor i of
     * so many. 0 to 1,024; above 0, `actors` may be 0. Default 0. */
    int32_t remote_actors;
    /* With samples_per_insert: transitions that the blocks of all actors together may have. With n actors and remote
     * actors, a block has at most the n-th part of it, and at least 1. So the weights that act are about rows_under_way
     * x samples_per_insert / batch_size train steps old when a block is appended, however many actors there are. 0, the
     * default: what gpur_apex_rows_under_way gives; for a remote actor, which does not know the learner, no limit. The
     * presets set it. */
    int64_t rows_under_way;
} gpur_apex_config;

/* The rows_under_way that come while a learner of this batch_size does half a target_period of train steps, at least 1;
 * 0 for samples_per_insert 0. Any thread. */
GPUR_API int64_t gpur_apex_rows_under_way(double samples_per_insert, int64_t batch_size, int64_t target_period);

/* Sets every member to its default. `size` is sizeof(gpur_apex_config). Any thread. GPUR_INVALID_ARGUMENT: NULL, or a
 * size below 8 or above 65,536. */
GPUR_API gpur_status gpur_apex_config_init(gpur_apex_config *config, uint64_t size);

/* The most fields of a replay that a preset specifies: obs, action, reward, next_obs, terminated, truncated, discount,
 * priority. */
enum { GPUR_APEX_FIELDS = 8 };

/*
 * Sets the members that a system specifies, in configs that were initialized, for an environment, of which it makes one
 * to ask for its spaces. Of `apex` these are all but actors, remote_actors, processes, command, seed, folder, on_event
 * and user. Other members keep their values. The learner's math becomes FP32, as in the paper, and with "-small" AUTO:
 * another one is set afterwards. Any thread.
 *
 *   "apex-dqn"        all constants of Horgan et al. 2018, section 4.1 and appendices C and F, for frames of 84 x 84
 *                     bytes. The replay's capacity is 1/16 above the soft capacity of 2,000,000. With another one
 *                     scale extra_frames, too: room for the frames that each block repeats
 *   "apex-dqn-small"  this library's own, for games like CartPole and MinAtar on a few cores: the same system with the
 *                     network and the sizes of "fast-dqn-small"
 *   "apex-dpg"        all constants of Horgan et al. 2018, appendix D, and where it has none those of "apex-dqn", for
 *                     continuous actions and observations of float32. The soft capacity is 1,000,000, and transitions
 *                     are evicted by priority. Of `dpg` seed keeps its value
 *   "apex-dpg-small"  this library's own, for tasks like Pendulum and cartpole swing-up on a few cores; the oldest
 *                     transitions are evicted
 *
 *   type, options  the environment; apex->env_options becomes `options`, which must exist until gpur_apex_create
 *   fields         (GPUR_APEX_FIELDS) receives the schema; replay->fields points to it until gpur_replay_create
 *   dqn, dpg       the settings of the learner, of which the preset's name says the kind; the other one may be NULL
 *
 *   GPUR_INVALID_ARGUMENT  no such name, an environment that the preset cannot take, or NULL
 */
GPUR_API gpur_status gpur_apex_preset(const char *name, const gpur_env_type *type, const char *options,
                                      gpur_field fields[GPUR_APEX_FIELDS], gpur_replay_config *replay,
                                      gpur_dqn_config *dqn, gpur_dpg_config *dpg, gpur_apex_config *apex);

/*
 * Creates a run of a learner of DQN or of DPG, and starts its actors at the first gpur_apex_advance. The learner, its
 * replay and the type of environment must outlive the run. While the run exists, no other code may write to the replay
 * or train the learner.
 *
 * With DPG [ibid., section 3.2 and appendix D] actors act by mu(s) + N(0, sigma^2) in continuous actions, and
 * evaluations by mu(s). With initial_priorities actors have the critic's weights, too, and priorities are |R + gamma^m
 * Q(s', mu(s')) - Q(s, a)|. Environments take vectors of float32 with finite bounds, to which the policy network's
 * range of -1 to 1 is scaled; the replay has them unscaled, as gpur_dpg_create wants them.
 *
 *   type  with `processes` used for its spaces alone; each process finds its own
 *
 *   GPUR_INVALID_ARGUMENT  a value out of its range, settings that do not go together (the message has both), a replay
 *                          without a field that is needed or that is not prioritized with initial_priorities, an
 *                          environment whose observations or actions are not the replay's and the network's, or NULL
 *   GPUR_OUT_OF_MEMORY     not enough memory, or no more threads or descriptors
 */
GPUR_API gpur_status gpur_apex_create(gpur_learner *learner, const gpur_env_type *type, const gpur_apex_config *config,
                                      gpur_apex **apex);

/* Asks all actors to end, kills processes that have not ended after 5 seconds, waits for all of them, and frees the
 * run. A thread ends after its step of the environment. Not to be called by on_event. NULL does nothing. */
GPUR_API void gpur_apex_destroy(gpur_apex *apex);

/*
 * Receives and trains until so many more environment steps of actors have been received, or so many more train steps
 * were done, whichever is first; 0: no limit of this kind. Nothing more is received once env_steps have come, of which
 * there may be more by less than a block and n_step. Training begins when the replay has its min_size. Actors go on
 * between calls until their blocks fill what the connection holds, and then wait.
 *
 *   GPUR_INVALID_ARGUMENT  both limits 0, one below 0, NULL, a run that has ended by an error, no train_steps in a run
 *                          of 0 actors without folder and remote actors, which would never return; an observation or
 *                          reward that is NaN or infinite, and without `restarts` also what an environment refused:
 *                          the message names the actor; or the learner has diverged (learner.h): actors get finite
 *                          weights alone
 *   GPUR_INTERRUPTED       gpur_apex_stop was called; the run can be advanced again
 *   GPUR_DEVICE_ERROR, ... those of gpur_learner_train and gpur_writer_append_block
 *
 * A block that gpur_writer_append_block refuses is counted and dropped, and its actor started again.
 */
GPUR_API gpur_status gpur_apex_advance(gpur_apex *apex, int64_t env_steps, int64_t train_steps);

/*
 * Ends a run: asks all actors to end, takes what they still send, without training and without waiting for the limiter,
 * and delivers their events. With `evaluates` 1 the evaluator plays one whole evaluation with the learner's weights
 * before it ends; an evaluation that is being played is cut off. If the evaluator is killed by a signal, it is started
 * again; if that happens five times in a row within a minute and before an episode has come, or once without
 * `restarts`, the evaluation is missing, which the event of its end tells, and the call returns GPUR_OK. Only after the
 * last call of gpur_apex_advance. The run can then be saved, read, destroyed, and finished once more, for an evaluation
 * after a save. Files of remote actors stay where they are, and gpur_apex_receive_block takes nothing meanwhile.
 *
 *   errors  those of gpur_apex_advance; GPUR_INVALID_ARGUMENT also if `evaluates` is not 0, or 1 with eval_episodes
 *           above 0. After GPUR_INTERRUPTED with `evaluates` 1 the evaluation is missing, and actors may still be
 *           ending, for which a call with 0 waits in any case
 */
GPUR_API gpur_status gpur_apex_finish(gpur_apex *apex, int32_t evaluates);

/* Makes gpur_apex_advance return soon, after 32 train steps at most, and gpur_apex_finish with `evaluates` 1. Any
 * thread; also safe in a signal handler. NULL does nothing. */
GPUR_API void gpur_apex_stop(gpur_apex *apex);

/* Changes the number of actors while the run goes on: the actors of higher numbers are asked to end, or new ones start.
 * The others keep their epsilons. With 0 actors no environment steps come any more: a gpur_apex_advance that waits for
 * them goes on until gpur_apex_stop is called or there are actors again. Any thread.
 *
 *   GPUR_INVALID_ARGUMENT  not 0 to 1,024, or NULL
 *   GPUR_OUT_OF_MEMORY     not enough memory for the writers of new actors. The number is as it was
 */
GPUR_API gpur_status gpur_apex_set_actors(gpur_apex *apex, int32_t actors);

/* The process of an actor, to watch or to kill it; -1: it has none now. Any thread. */
GPUR_API int64_t gpur_apex_actor_process(gpur_apex *apex, int32_t actor);

/* What gpur_apex_get_stats reports. Counts of steps, episodes and blocks go on from a loaded file; seconds do not. */
typedef struct gpur_apex_stats {
    uint64_t size;          /* sizeof(gpur_apex_stats), as the caller was compiled: set it before the call */
    int64_t env_steps;      /* environment steps that actors have reported with their blocks; of remote actors the steps
                               that begin the transitions of their blocks */
    int64_t episodes;       /* that have ended; those of evaluations are not counted */
    int64_t train_steps;    /* done */
    int64_t learned;        /* transitions in them: train_steps x batch_size */
    int64_t blocks;         /* received and appended */
    int64_t rows;           /* transitions in them, each counted once, also with `replicate` */
    int64_t inserted;       /* those of them that came when training could begin, or later; after a load with `refill`
                               since the replay was full again */
    int64_t bytes;          /* of these blocks */
    int64_t refused_blocks; /* damaged, of another format, or repeated */
    int64_t lost_blocks;    /* by gaps in their sequence, and at the end of actors by their own count */
    int64_t lost_rows;      /* as in gpur_apex_event, of all actors that have ended; not of remote actors */
    /* Of actors; deaths: ends that nobody asked for. A remote actor whose blocks the caller brings counts as started
     * with gpur_apex_receive_start, or with the first block of an incarnation; the one before it has then died. */
    int64_t starts, deaths;
    int64_t actors;       /* running actors, and those of remote_actors heard from in the last minute */
    int64_t broadcasts;   /* versions of the weights that actors were given */
    int64_t pulled;       /* copies of them that actors took; not of remote actors */
    int64_t trims;        /* calls of gpur_replay_trim */
    int64_t eval_episode; /* the episode of an evaluation that is played now, counted from 1; 0: none is */
    int64_t limiter_timeouts;
    double recent_return;     /* mean return of the last 100 episodes of the actor with the smallest epsilon; NaN before
                                the first one */
    double evaluated_return;  /* mean return of the last evaluation; NaN before the first one */
    double seconds;           /* time in gpur_apex_advance */
    double train_seconds;     /* in training */
    double broadcast_seconds; /* in broadcasting weights */
    double receive_seconds;   /* in checking and appending blocks */
    double learner_wait_seconds; /* the learner's, for min_size and for the limiter */
    double actor_seconds;        /* that all actors together have run, by their own clocks, which go on between calls
                                    of gpur_apex_advance; without the evaluator and remote actors */
    double actor_env_seconds;    /* of these in their environments */
    double actor_infer_seconds;  /* in inference */
    double actor_wait_seconds;   /* in handing over blocks: waiting for the limiter or for room; and, of actors in
                                    threads, appending them */
    double weights_age;          /* median age of the weights that acted over the last 100 blocks: train steps done when
                                    the block was appended, less those done when the weights were broadcast that chose
                                    its last action. NaN before the first block */
} gpur_apex_stats;

/* Reads the statistics. Any thread. GPUR_INVALID_ARGUMENT: NULL, or `stats->size` was not set. */
GPUR_API gpur_status gpur_apex_get_stats(gpur_apex *apex, gpur_apex_stats *stats);

/*
 * Saves the run to a folder, which is created if it is not there: the replay ("replay.safetensors"), the learner
 * ("learner.safetensors"), and counters ("run.safetensors", written last). Only between two calls of
 * gpur_apex_advance.
 *
 * gpur_apex_load restores it into a run with the same settings, before its first gpur_apex_advance: with `refill` 0 the
 * replay, too; with 1 the replay stays empty, and training goes on when actors have filled it to its min_size again
 * [appendix F, Failure Tolerance]. Actors begin new episodes, with seeds that were not used before.
 *
 *   errors  those of gpur_run_save and gpur_run_load
 */
GPUR_API gpur_status gpur_apex_save(gpur_apex *apex, const char *folder);
GPUR_API gpur_status gpur_apex_load(gpur_apex *apex, const char *folder, int32_t refill);

/* The networks of a learner, for its actors. */
typedef struct gpur_apex_networks {
    uint64_t size;                     /* sizeof(gpur_apex_networks), as the caller was compiled */
    const gpur_network_config *acting; /* chooses the actions: the network of DQN, or the policy network of DPG */
    const gpur_network_config *critic; /* of DPG; NULL: the learner is of DQN */
} gpur_apex_networks;

/*
 * What an actor's process does: reads its number, epsilon and seed from the connection, and acts until it is asked to
 * end, or until the learner's process is gone.
 *
 *   connection  file descriptor of the connection: 3 in processes that `command` starts. Closed on return
 *   replay      settings of the learner's replay: the format of its blocks
 *   networks    of the learner
 *   threads     of the CPU device that the actor opens; 0: 1
 *
 *   GPUR_INVALID_ARGUMENT  another format or network than the learner's, an environment that does not fit or that
 *                          refused; the learner reports the message, too. Or a descriptor that is no connection; NULL
 *   GPUR_INTERRUPTED       the learner's process is gone
 */
GPUR_API gpur_status gpur_apex_serve(int32_t connection, const gpur_env_type *type, const char *env_options,
                                     const gpur_replay_config *replay, const gpur_apex_networks *networks,
                                     int32_t threads);

/*
 * Acts as one remote actor, which leaves its blocks as files in config->folder, for a learner whose config has the same
 * folder [Parr, Dilipkumar & Liu 2017]. It needs nothing else of the learner. Remote actors and learner begin and end
 * in any order, and may be killed; what a remote actor had not written then is lost.
 *
 *     FOLDER/blocks/ACTOR-TIME-NUMBER.block   a block. The remote actor writes it under another name (.part), and
 *                                             renames it; the learner appends its rows and deletes it
 *     FOLDER/blocks/....bad                   a file that was no block of these settings: the learner has skipped it,
 *                                             counted it in refused_blocks, and told the device's log why. It keeps 64
 *     FOLDER/model.safetensors                the weights, of gpur_policy_save, and for DPG critic.safetensors. The
 *                                             learner writes them when it begins and after every 15 files that it
 *                                             took; every pull_period steps a remote actor reads them if they changed
 *
 * A remote actor waits for the first weights, and while two files of its number are in the folder, so there are at most
 * two for each; with samples_per_insert it waits until its file was taken. The learner looks for files 20 times a
 * second, and 200 times while it finds some. It appends what its limiter lets in. It deletes a file that is unfinished
 * and was not written to for a minute. Files report no episodes: neither events nor mean returns include them, so let
 * an actor evaluate. A learner that is killed may have appended the last file and not deleted it, so that the next one
 * appends it again.
 *
 *   config   folder, actors, the epsilons, block_rows, rows_under_way, samples_per_insert, compression,
 *            initial_priorities, pull_period, max_episode_steps, seed and env_options; other members are only checked
 *   actor    0 to config->actors - 1. No two remote actors of a folder may have the same number at once
 *   replay, networks, threads  as in gpur_apex_serve
 *   stop     called with `user`: 1 to end. Asked with each block, each look at the weights, and while waiting. The
 *            remote actor then closes its episode and writes what is left, if it need not wait. NULL: it does not end
 *
 *   GPUR_OK                it was asked to end
 *   GPUR_INVALID_ARGUMENT  a value out of its range, no folder, weights of another network, an environment that does
 *                          not fit or that refused, or NULL
 *   GPUR_FILE_ERROR        the folder cannot be made, read or written
 */
GPUR_API gpur_status gpur_apex_work(const gpur_apex_config *config, int32_t actor, const gpur_env_type *type,
                                    const gpur_replay_config *replay, const gpur_apex_networks *networks,
                                    int32_t threads, int (*stop)(void *user), void *user);

/*
 * The caller's functions that bring blocks and weights from an actor to a learner that is elsewhere, and back. They are
 * called in the thread that called gpur_apex_act, with `user`, and may wait. Each returns 0, or another number to end
 * the actor.
 */
typedef struct gpur_apex_transport {
    uint64_t size; /* sizeof(gpur_apex_transport), as the caller was compiled */
    /* Takes a block, for gpur_apex_receive_block. The memory is the actor's, and changes after the call. The actor goes
     * on when it returns: with samples_per_insert it should return when the block was received, so that the actor acts
     * by weights that are not old. */
    int32_t (*take_block)(void *user, const void *block, int64_t bytes);
    /* Takes what an episode has returned, for gpur_apex_receive_episode. */
    int32_t (*take_episode)(void *user, int64_t length, double episode_return);
    /* Copies the newest weights, (bytes) of gpur_apex_get_weights, if they are not those of the call before: then
     * *is_new becomes 1. Comes before the first step, and then every pull_period steps. The first call must give
     * some. */
    int32_t (*copy_weights)(void *user, void *weights, int64_t bytes, int32_t *is_new);
    void *user;
} gpur_apex_transport;

/*
 * Acts as one remote actor, whose blocks the caller brings to a run that has remote_actors. It needs nothing else of
 * the learner.
 *
 *   config       actors, the number of all remote actors, the epsilons, block_rows, rows_under_way, samples_per_insert,
 *                compression, initial_priorities, pull_period, max_episode_steps, seed and env_options; other members
 *                are only checked
 *   actor        0 to config->actors - 1. No two of a run may be the same actor at the same time
 *   incarnation  0 or more, and more than in earlier calls for this actor: the time, say. Environment and exploration
 *                of each have seeds of their own
 *   replay, networks, threads  as in gpur_apex_serve
 *
 *   GPUR_INTERRUPTED       a function of the transport has ended it. What was not taken is lost
 *   GPUR_INVALID_ARGUMENT  a value out of its range, weights of another network, an environment that does not fit or
 *                          that refused, or NULL
 */
GPUR_API gpur_status gpur_apex_act(const gpur_apex_config *config, int32_t actor, int64_t incarnation,
                                   const gpur_env_type *type, const gpur_replay_config *replay,
                                   const gpur_apex_networks *networks, int32_t threads,
                                   const gpur_apex_transport *transport);

/*
 * Takes a block of a remote actor into a run: checks it and its number in the sequence, waits for the limiter, and
 * appends it. Blocks of an incarnation come in their order; one that is missing is counted in lost_blocks when a later
 * one comes. Any thread; calls take turns.
 *
 *   block  (bytes) in host memory, at any address. Must not change during the call
 *
 *   GPUR_INVALID_ARGUMENT, GPUR_FILE_ERROR  it is refused, and counted in refused_blocks: of another format or actor,
 *                          damaged, or it came before. Nothing else changes. Also NULL, which is not counted
 *   GPUR_WOULD_BLOCK       nobody advances the run, or gpur_apex_finish runs. Nothing was taken. Call
 *                          again as long as the run goes on
 *   GPUR_INTERRUPTED       the run has ended by an error
 *   others                 those of gpur_writer_append_block; they end the run
 */
GPUR_API gpur_status gpur_apex_receive_block(gpur_apex *apex, const void *block, int64_t bytes);

/*
 * Counts the start of a remote actor as a new incarnation, and the death of the incarnation before it, if the run knows
 * of one, also if no block of that came. Without such calls only incarnations are counted of which a block comes. Any
 * thread; calls for one remote actor take turns with gpur_apex_receive_block.
 *
 *   incarnation  0 or more, and more than that of the last call or block
 *
 *   GPUR_INVALID_ARGUMENT  no such remote actor, or an incarnation that is not larger. Nothing was counted. Also NULL
 */
GPUR_API gpur_status gpur_apex_receive_start(gpur_apex *apex, int32_t actor, int64_t incarnation);

/* Takes what an episode of a remote actor has returned, for events and means. Any thread. GPUR_INVALID_ARGUMENT: no
 * such remote actor, a length below 1, a return that is not finite, or NULL. */
GPUR_API gpur_status gpur_apex_receive_episode(gpur_apex *apex, int32_t actor, int64_t length, double episode_return);

/* The bytes of a run's weights, which are those of gpur_policy_get_weights; of DPG of both networks. NULL gives 0. */
GPUR_API int64_t gpur_apex_weights_bytes(const gpur_apex *apex);

/*
 * Copies the weights that were broadcast last, for remote actors. Does not wait for the learner. Any thread.
 *
 *   weights    (bytes) receives them; NULL: only their number is wanted
 *   bytes      gpur_apex_weights_bytes
 *   broadcast  receives the number of their broadcast: 1, 2, ... 0: there was none yet, and nothing is copied
 *
 *   GPUR_INVALID_ARGUMENT  another number of bytes, or NULL
 */
GPUR_API gpur_status gpur_apex_get_weights(gpur_apex *apex, void *weights, int64_t bytes, int64_t *broadcast);

#ifdef __cplusplus
}
#endif
#endif
