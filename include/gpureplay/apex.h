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
 * Three kinds of threads belong to a run: the one that calls gpur_run_advance trains; the supervisor's starts actors
 * and takes blocks from processes and files; and each actor of this process has one. Evaluations are played by one more
 * actor, which adds nothing to the replay.
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

/* The most actors of a run, and the number of the evaluator: the actor that plays evaluations. */
enum { GPUR_APEX_MAX_ACTORS = 1024, GPUR_APEX_EVALUATOR = 1024 };

/* Settings of gpur_apex_create. gpur_apex_config_init sets the defaults, which are those of Horgan et al. 2018, section
 * 4.1 and appendices C and F, except that there are 8 actors. */
typedef struct gpur_apex_config {
    uint64_t size;              /* sizeof(gpur_apex_config), as the caller was compiled. gpur_apex_create copies all
                                     that members point to */
    int32_t actors;             /* N, 1 to 1,024; beside `folder` or remote_actors also 0. Given to a remote actor: the
                                     number of all remote actors, to which its epsilon belongs. Default 8 */
    const char *const *command; /* NULL, the default: each actor is a thread. Else it is a process, which this command
                                     starts: its words, then NULL. The program is searched for in PATH. It must call
                                     gpur_apex_serve with the same settings of the replay and of the network. It has a
                                     process group of its own, so that a terminal's interrupt reaches the learner
                                     alone. If the program is /proc/self/exe, argv[0] becomes "gpureplay actor 3", say,
                                     or "gpureplay evaluator" */
    float epsilon_base;         /* actor i acts with epsilon_base^(1 + epsilon_exponent i / (N - 1)), if N = 1 with
                                     epsilon_base; 0 to 1, default 0.4 */
    float epsilon_exponent;     /* 0 or more; default 7 */
    const float *epsilons;      /* (epsilon_count) actor i acts with epsilons[i mod epsilon_count] instead [appendix
                                     B]; NULL, the default: the ladder */
    int32_t epsilon_count;
    int32_t block_rows;         /* transitions of a block, 1 to 65,536; default 50. There are fewer in it where
                                   rows_under_way says so, and at the end of an actor */
    int32_t compression;        /* level of Zstandard for blocks, 1 to 19; 0, the default: none */
    int32_t initial_priorities; /* 1, the default: |TD error| by the actor. 0: none, so that the replay gives the first
                                   one, as in Schaul et al. 2016 (gpur_replay_config.first_priority). Where
                                   returns are distributions, the learner's own priorities are losses, which are of
                                   another scale than |TD error| */
    int32_t replicate;          /* each block is appended so often [appendix A]; 1 to 64, default 1 */
    int64_t pull_period;        /* an actor takes the newest weights after so many of its steps, and with
                                   samples_per_insert also after each block; default 100 */
    int64_t max_episode_steps;  /* an actor truncates episodes after so many steps; 0: never. Default 12,500, which
                                     are 50,000 frames of Atari */
    int64_t broadcast_period;   /* train steps between two broadcasts of weights to the actors; default 10 */
    int64_t soft_capacity;      /* gpur_replay_trim is called with it every trim_period train steps; 0, the default:
                                   only the replay's capacity limits it. At most the capacity, and at least max_batch.
                                   Unless the replay samples without replacement, a small one takes less: the message
                                   of a refusal has the least number */
    int64_t trim_period;        /* default 100 */
    double samples_per_insert;  /* transitions learned for each transition received, after min_size; the side that is
                                     ahead waits. Then an actor goes on when its block was appended, and not before, so
                                     that no blocks wait and get old. 0, the default: nobody waits */
    double limiter_band;        /* how far a side may be ahead of the other before it waits, in transitions learned: at
                                     least batch_size, which a train step adds, and samples_per_insert x block_rows,
                                     which a block asks for. 0, the default: 10 times the larger of the two */
    double limiter_timeout;     /* seconds after which a wait ends all the same, for one train step or one block, and
                                     is counted; above 0, default 10 */
    int32_t restarts;           /* 1, the default: an actor that died is started again. If it died early, that is within
                                     a minute after its start and before anything of it was received, it is started
                                     after a wait: 0.05 s, and twice as long each time, at most a minute. The run ends
                                     with an error when an actor failed early 5 times in a row, or when every actor died
                                     early 5 times in a row, or, whatever `restarts` is, when an observation or reward
                                     is NaN or infinite (the replay's check_finite). An actor whose process is killed by
                                     a signal has died, but not failed. 0: no actor is started again. The run ends with
                                     an error when one fails; when the process of one was killed it goes on, as long
                                     as there is another actor */
    /* Where files of remote actors come from: see gpur_apex_work. It is made if it is not there, and belongs to one
     * learner at a time. NULL, the default: none. */
    const char *folder;
    /* Of a learner of DPG, whose actors act by mu(s) and noise: the standard deviation of the noise of each component,
     * whose range is -1 to 1; 0 or more, default 0.3. It has no effect with SAC. With DPG and SAC epsilons,
     * eval_epsilon included, have no effect. The evaluator has no noise. */
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

/*
 * Returns the default of rows_under_way: the rows that come while a learner of this batch_size does half a
 * target_period of train steps, at least 1. With samples_per_insert 0 it is 0. Any thread.
 *
 *     apex_config.samples_per_insert = 8;
 *     apex_config.rows_under_way = gpur_apex_rows_under_way(apex_config.samples_per_insert, learner_config.batch_size,
 *                                                           learner_config.target_period);
 */
GPUR_API int64_t gpur_apex_rows_under_way(double samples_per_insert, int64_t batch_size, int64_t target_period);

/* Sets every member to its default. `size` is sizeof(gpur_apex_config). Any thread. GPUR_INVALID_ARGUMENT: NULL, or a
 * size below 8 or above 65,536. */
GPUR_API gpur_status gpur_apex_config_init(gpur_apex_config *config, uint64_t size);

/* The most fields of a replay that a preset specifies: obs, action, reward, next_obs, terminated, truncated, discount,
 * priority. */
enum { GPUR_APEX_FIELDS = 8 };

/*
 * Sets the members that a system specifies, in configs that were initialized, for an environment, of which it makes one
 * to ask for its spaces. Of `run` these are eval_period, eval_episodes and eval_epsilon, and of `apex` all but actors,
 * remote_actors, command and folder. Other members keep their values. The learner's math becomes FP32, as in the paper,
 * and with "-small" AUTO: another one is set afterwards. Any thread.
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
 *   run       has the environment
 *   fields    (GPUR_APEX_FIELDS) receives the schema; replay->fields points to it until gpur_replay_create
 *   dqn, dpg  the settings of the learner, of which the preset's name says the kind; the other one may be NULL
 *
 *   GPUR_INVALID_ARGUMENT  no such name, an environment that the preset cannot take, or NULL
 */
GPUR_API gpur_status gpur_apex_preset(const char *name, gpur_run_config *run, gpur_field fields[GPUR_APEX_FIELDS],
                                      gpur_replay_config *replay, gpur_dqn_config *dqn, gpur_dpg_config *dpg,
                                      gpur_apex_config *apex);

/*
 * Creates a run of a learner of DQN, DPG or SAC, which starts its actors at the first gpur_run_advance, and the one
 * that evaluates at the first evaluation. The learner, its replay and the type of environment must outlive the run.
 * While the run exists, no other code may write to the replay or train the learner.
 *
 * With DPG [ibid., section 3.2 and appendix D] actors act by mu(s) + N(0, sigma^2) in continuous actions, and
 * evaluations by mu(s). With initial_priorities actors have the critic's weights, too, and priorities are |R + gamma^m
 * Q(s', mu(s')) - Q(s, a)|; of two critics, as TD3 has them, the mean of both errors with the smaller one of both Q(s',
 * mu(s')). With SAC actors act by actions drawn from the policy, and evaluations by its mean; in the place of Q(s',
 * mu(s')) stands the smaller Q(s', a') - alpha log pi(a'|s') of the action a' that the actor drew in s'. Environments
 * take vectors of float32 with finite bounds, to which the policy network's range of -1 to 1 is scaled; the replay has
 * them unscaled, as gpur_dpg_create wants them.
 *
 * A block that gpur_writer_append_block refuses is counted and dropped, and its actor started again. An actor that
 * evaluates, and dies five times in one evaluation, or once without `restarts`, is given up: that evaluation is
 * missing, and the next one starts another actor, without `restarts` only one of gpur_run_evaluate.
 *
 *   run     needs `type`, and takes no vector. With `command` the type is used for its spaces alone: each process finds
 *           its own
 *   config  settings; read before the call returns
 *   handle  receives the handle, or NULL if the call fails; destroy it with gpur_run_destroy
 *
 *   GPUR_INVALID_ARGUMENT  a value out of its range, settings that do not go together (the message has both), a replay
 *                          without a field that is needed or that is not prioritized with initial_priorities, an
 *                          environment whose observations or actions are not the replay's and the network's, or NULL
 *   GPUR_OUT_OF_MEMORY     not enough memory, or no more threads or descriptors
 */
GPUR_API gpur_status gpur_apex_create(gpur_learner *learner, const gpur_run_config *run, const gpur_apex_config *config,
                                      gpur_run **handle);

/*
 * Changes the number of actors while the run goes on: the actors of higher numbers are asked to end, or new ones start.
 * The others keep their epsilons. With 0 actors no environment steps come any more: a gpur_run_advance that waits for
 * them goes on until gpur_run_stop is called or there are actors again; gpur_run_advance(run, 0, 0) waits for the ends
 * of those that were asked. Any thread.
 *
 *   GPUR_INVALID_ARGUMENT  not 0 to 1,024, a run of another system, or NULL
 *   GPUR_OUT_OF_MEMORY     not enough memory for the writers of new actors. The number is as it was
 *
 *     gpur_apex_set_actors(run, 4); // another program needs the cores
 *     gpur_run_advance(run, 1000000, 0);
 *     gpur_apex_set_actors(run, 8);
 */
GPUR_API gpur_status gpur_apex_set_actors(gpur_run *run, int32_t actors);

/*
 * Returns the id of an actor's process, to watch or to kill it; -1 if it has none now, or the run is of another system.
 * Any thread.
 *
 *     for (int32_t i = 0; i < apex_config.actors; i++)
 *         printf("actor %d is process %" PRId64 "\n", i, gpur_apex_actor_process(run, i));
 */
GPUR_API int64_t gpur_apex_actor_process(gpur_run *run, int32_t actor);

/* The networks of a learner, for its actors. */
typedef struct gpur_apex_networks {
    uint64_t size;                     /* sizeof(gpur_apex_networks), as the caller was compiled */
    const gpur_network_config *acting; /* chooses the actions: the network of DQN, or the actor of DPG or SAC */
    const gpur_network_config *critic; /* of DPG or SAC; NULL: the learner is of DQN */
    int32_t critics;                   /* how many of them the learner has: 1 or 2; 0: 1 */
    int32_t reserved;                  /* 0 */
} gpur_apex_networks;

/*
 * What an actor's process does: reads its number, epsilon and seed from the connection, and acts until it is asked to
 * end, or until the learner's process is gone.
 *
 *   connection  file descriptor of the connection: 3 in processes that `command` starts. Closed on return
 *   run         the environment; its other members are only checked, since the learner gives them
 *   replay      settings of the learner's replay: the format of its blocks
 *   networks    of the learner
 *   threads     of the CPU device that the actor opens; 0: 1
 *
 *   GPUR_INVALID_ARGUMENT  another format or network than the learner's, an environment that does not fit or that
 *                          refused; the learner reports the message, too. Or a descriptor that is no connection; NULL
 *   GPUR_INTERRUPTED       the learner's process is gone
 *
 *     int main(void) // of the program that `command` names
 *     {
 *         // run_config, replay_config and learner_config are set as in the learner's program.
 *         const gpur_apex_networks networks = {.size = sizeof networks, .acting = &learner_config.network};
 *         return gpur_apex_serve(3, &run_config, &replay_config, &networks, 1) == GPUR_OK ? 0 : 1;
 *     }
 */
GPUR_API gpur_status gpur_apex_serve(int32_t connection, const gpur_run_config *run, const gpur_replay_config *replay,
                                     const gpur_apex_networks *networks, int32_t threads);

/*
 * Acts as one remote actor, which leaves its blocks as files in config->folder, for a learner whose config has the same
 * folder [Parr, Dilipkumar & Liu 2017]. It needs nothing else of the learner. Remote actors and learner begin and end
 * in any order, and may be killed; what a remote actor had not written then is lost.
 *
 *     FOLDER/blocks/ACTOR-TIME-NUMBER.block   a block. The remote actor writes it under another name (.part), and
 *                                             renames it; the learner appends its rows and deletes it
 *     FOLDER/blocks/....bad                   a file that was no block of these settings: the learner has skipped it,
 *                                             counted it in refused_blocks, and told the device's log why. It keeps 64
 *     FOLDER/model.safetensors                the weights, of gpur_policy_save, and for DPG and SAC critic.safetensors.
 *                                             The learner writes them when it begins and after every 15 files that
 *                                             it took; every pull_period steps a remote actor reads them if they
 *                                             changed
 *
 * A remote actor waits for the first weights, and while two files of its number are in the folder, so there are at most
 * two for each; with samples_per_insert it waits until its file was taken. The learner looks for files 20 times a
 * second, and 200 times while it finds some. It appends what its limiter lets in. It deletes a file that is unfinished
 * and was not written to for a minute. Files report no episodes: neither events nor mean returns include them, so let
 * an actor evaluate. A learner that is killed may have appended the last file and not deleted it, so that the next one
 * appends it again.
 *
 *   run      the environment and the seed; other members are only checked
 *   config   folder, actors, the epsilons, block_rows, rows_under_way, samples_per_insert, compression,
 *            initial_priorities, pull_period and max_episode_steps; other members are only checked
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
GPUR_API gpur_status gpur_apex_work(const gpur_run_config *run, const gpur_apex_config *config, int32_t actor,
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
 *   run          the environment and the seed; other members are only checked
 *   config       actors, the number of all remote actors, the epsilons, block_rows, rows_under_way, samples_per_insert,
 *                compression, initial_priorities, pull_period and max_episode_steps; other members are only checked
 *   actor        0 to config->actors - 1. No two of a run may be the same actor at the same time
 *   incarnation  0 or more, and more than in earlier calls for this actor: the time, say. Environment and exploration
 *                of each have seeds of their own
 *   replay, networks, threads  as in gpur_apex_serve
 *
 *   GPUR_INTERRUPTED       a function of the transport has ended it. What was not taken is lost
 *   GPUR_INVALID_ARGUMENT  a value out of its range, weights of another network, an environment that does not fit or
 *                          that refused, or NULL
 *
 * On the actor's machine, with functions that send and receive by a connection:
 *
 *     const gpur_apex_networks networks = {.size = sizeof networks, .acting = &learner_config.network};
 *     const gpur_apex_transport transport = {.size = sizeof transport, .user = connection, .take_block = send_block,
 *                                            .take_episode = send_episode, .copy_weights = get_weights};
 *     gpur_apex_act(&run_config, &apex_config, actor, time(NULL), &replay_config, &networks, 1, &transport);
 */
GPUR_API gpur_status gpur_apex_act(const gpur_run_config *run, const gpur_apex_config *config, int32_t actor,
                                   int64_t incarnation, const gpur_replay_config *replay,
                                   const gpur_apex_networks *networks, int32_t threads,
                                   const gpur_apex_transport *transport);

/*
 * Takes a block of a remote actor into a run: checks it and its number in the sequence, waits for the limiter, and
 * appends it. Blocks of an incarnation come in their order; one that is missing is counted in lost_blocks when a later
 * one comes. Any thread; calls take turns.
 *
 *   block  (bytes) in host memory, at any address. Must not change during the call
 *
 * A block that is damaged, of another format or actor, or that came before is refused (GPUR_INVALID_ARGUMENT or
 * GPUR_FILE_ERROR) and counted in refused_blocks. Nothing else changes. NULL and a run of another system are refused
 * too, and not counted.
 *
 * GPUR_WOULD_BLOCK: nothing was taken, because no call of gpur_run_advance takes steps now, or because the run waits
 * for an evaluation. Call again as long as the run goes on.
 *
 * GPUR_INTERRUPTED: an error has ended the run.
 *
 * Other errors are those of gpur_writer_append_block; they end the run.
 *
 * On the learner's machine, in a thread beside gpur_run_advance, with a block that has come from an actor:
 *
 *     gpur_status status;
 *     while ((status = gpur_apex_receive_block(run, block, bytes)) == GPUR_WOULD_BLOCK)
 *         usleep(10000);
 *     if (status != GPUR_OK)
 *         fprintf(stderr, "%s\n", gpur_last_error());
 */
GPUR_API gpur_status gpur_apex_receive_block(gpur_run *run, const void *block, int64_t bytes);

/*
 * Counts the start of a remote actor as a new incarnation, and the death of the incarnation before it, if the run knows
 * of one, also if no block of that came. Without such calls only incarnations are counted of which a block comes. Any
 * thread; calls for one remote actor take turns with gpur_apex_receive_block.
 *
 *   incarnation  0 or more, and more than that of the last call or block
 *
 *   GPUR_INVALID_ARGUMENT  no such remote actor, or an incarnation that is not larger. Nothing was counted. Also NULL
 *
 *     gpur_apex_receive_start(run, actor, incarnation);     // the actor has connected
 *     gpur_apex_receive_episode(run, actor, length, total);     // for each take_episode of it
 */
GPUR_API gpur_status gpur_apex_receive_start(gpur_run *run, int32_t actor, int64_t incarnation);

/* Takes what an episode of a remote actor has returned, for events and means. Any thread. GPUR_INVALID_ARGUMENT: no
 * such remote actor, a length below 1, a return that is not finite, or NULL. */
GPUR_API gpur_status gpur_apex_receive_episode(gpur_run *run, int32_t actor, int64_t length, double episode_return);

/* Returns the bytes of a run's weights, which are those of gpur_policy_get_weights; of DPG and SAC those of actor and
 * critics, and of SAC then alpha. Any thread. NULL gives 0. */
GPUR_API int64_t gpur_apex_weights_bytes(gpur_run *run);

/*
 * Copies the weights that were broadcast last, for remote actors. Does not wait for the learner. Any thread.
 *
 *   weights    (bytes) receives them; NULL: only their number is wanted
 *   bytes      gpur_apex_weights_bytes
 *   broadcast  receives the number of their broadcast: 1, 2, ... 0: there was none yet, and nothing is copied
 *
 *   GPUR_INVALID_ARGUMENT  another number of bytes, or NULL
 *
 *     const int64_t bytes = gpur_apex_weights_bytes(run);
 *     void *const weights = malloc((size_t)bytes);
 *     int64_t broadcast;
 *     gpur_apex_get_weights(run, weights, bytes, &broadcast);
 *     if (broadcast > sent)
 *         fwrite(weights, 1, (size_t)bytes, file), sent = broadcast; // to the actors
 *     free(weights);
 */
GPUR_API gpur_status gpur_apex_get_weights(gpur_run *run, void *weights, int64_t bytes, int64_t *broadcast);

#ifdef __cplusplus
}
#endif
#endif
