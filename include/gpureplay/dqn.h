/* SPDX-License-Identifier: MIT */
/*
 * DQN: learners of action values, which train on a replay [Mnih et al. 2015, algorithm 1]. learner.h has the functions
 * that take any learner; those here take no other. With a cache of returns (returns.h) such a learner trains on returns
 * of several steps, without a target network.
 *
 * With GPUR_HEAD_QUANTILES it is QR-DQN [Dabney et al. 2018], and with GPUR_HEAD_CATEGORICAL C51 [Bellemare et al.
 * 2017]. The loss of a transition is then that of its distribution: the quantile Huber loss, whose kappa is
 * huber_delta, summed over the quantiles of the action and averaged over those of the target [Dabney et al. 2018,
 * algorithm 1; divided by kappa as in Dabney et al. 2018b, eq. 3]; or the cross-entropy of the projected target. The
 * action of next_obs is that with the largest mean, by which these learners also act. Their TD errors, such as those
 * that become new priorities, are this loss without the importance weight. (Rainbow's priority is the KL divergence of
 * the projected target from the prediction [Hessel et al. 2018], which is the cross-entropy less the target's entropy.)
 * `loss` is not read, and there is no cache of returns and no fused step.
 *
 *     gpur_dqn_config config;
 *     gpur_dqn_config_init(&config, sizeof config);
 *     config.network.num_actions = 6;
 *     gpur_dqn_create(replay, &config, &learner);
 *     gpur_learner_act(learner, 1, obs, gpur_learner_epsilon(learner, step), &action, NULL);
 *     gpur_learner_train(learner, 1);
 *
 * examples/own_batches.c trains on ids, on batches in host memory and from a cache of returns.
 */
#ifndef GPUREPLAY_DQN_H
#define GPUREPLAY_DQN_H

#include "gpureplay/learner.h"
#include "gpureplay/priority.h"
#include "gpureplay/returns.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The loss as a function of the TD error d. GPUR_LOSS_SQUARED: d^2 / 2. GPUR_LOSS_HUBER: d^2 / 2 if |d| is at most
 * delta, otherwise delta (|d| - delta / 2) [Huber 1964]. */
enum { GPUR_LOSS_HUBER = 0, GPUR_LOSS_SQUARED = 1 };

/* The weights that gpur_learner_act uses. */
enum {
    GPUR_ACT_LATEST = 0,   /* those after the last launch enqueued; acting waits for that launch */
    GPUR_ACT_PREVIOUS = 1, /* those from before the last launch enqueued, so that acting overlaps with training */
    GPUR_ACT_TARGET = 2,   /* those of the target network from before the last launch enqueued, so that acting overlaps
                              with training [Daley & Amato 2021, concurrent training] */
};

/*
 * How gpur_learner_train computes its steps. Both ways sample the same transitions, and their losses agree except for
 * the order of sums.
 *
 *   GPUR_STEP_LIBRARIES   with matrix products and convolutions from libraries
 *   GPUR_STEP_FUSED       whole steps in one kernel, for small networks on a GPU. Acting may have to wait for such a
 *                         launch. It requires two dense layers before the output layer (the head's hidden layer
 *                         counts), without normalization, GPUR_MATH_FP32, a replay of GPUR_LAYOUT_ROWS, obs of
 *                         float32, input_scale 1 and input_shift 0. Other learners are refused, and the message says
 *                         what is required
 *   GPUR_STEP_AUTO        the default: GPUR_STEP_FUSED on a GPU for a learner that it takes, with at most 128 rows in a
 *                         batch and at most 262,144 weights, else GPUR_STEP_LIBRARIES
 *
 * gpur_learner_train_ids and gpur_learner_train_host_batch always use the libraries.
 */
enum { GPUR_STEP_AUTO = 0, GPUR_STEP_LIBRARIES = 1, GPUR_STEP_FUSED = 2 };

/* The most host batches of a learner; see gpur_learner_acquire_host_batch. */
enum { GPUR_MAX_HOST_BATCHES = 16 };

/* Settings of gpur_dqn_create. gpur_dqn_config_init sets the defaults; network.num_actions must then be set. */
typedef struct gpur_dqn_config {
    uint64_t size;                   /* sizeof(gpur_dqn_config), as the caller was compiled */
    gpur_network_config network;     /* its input is the replay's `obs`: an image if the first layer is a convolution,
                                        otherwise flattened */
    gpur_optimizer_config optimizer; /* of all weights */
    int32_t double_dqn;        /* 1, the default: y = r + discount Q_target(s', a*) with a* = argmax_a Q(s', a) [van
                                  Hasselt et al. 2016, eq. 4]. 0: y = r + discount max_a Q_target(s', a) [Mnih et
                                  al. 2015] */
    int32_t loss;              /* GPUR_LOSS_*, averaged over the batch; default HUBER */
    float huber_delta;         /* delta of GPUR_LOSS_HUBER, above 0; with GPUR_HEAD_QUANTILES kappa, which may be 0: the
                                  loss of quantile regression. Default 1 */
    int32_t index_source;      /* how train steps sample: GPUR_SOURCE_AUTO, the default (as the replay does),
                                  GPUR_UNIFORM* or, on a prioritized replay, GPUR_PRIORITIZED_*. By priority, each step
                                  multiplies its losses by the importance weights, and gives its transitions the new
                                  priorities |TD error| + priority_offset [Schaul et al. 2016, algorithm 1] */
    int64_t batch_size;        /* 1 to the replay's max_batch; default 32 */
    int64_t target_period;     /* train steps between copies to the target network, 1 or more; default 10,000 */
    int32_t target_copy_first; /* 0, the default: copies after steps period, 2 period, ... 1: after steps 1,
                                  period + 1, 2 period + 1, ..., as in the code of Parr 2018 */
    int32_t act;               /* GPUR_ACT_*; default LATEST */
    int32_t math;              /* GPUR_MATH_*; default FP32 */
    int32_t step_kernel;       /* GPUR_STEP_*; default AUTO */
    gpur_schedule exploration; /* epsilon by environment step, for gpur_learner_epsilon; within 0 to 1 */
    uint64_t seed;             /* of initial weights, sampling and exploration; default 0 */
    int32_t host_batches;      /* host batches for gpur_learner_acquire_host_batch, each with room for batch_size packed
                                  rows, pinned on CUDA; 0 to GPUR_MAX_HOST_BATCHES, default 0 */
    gpur_schedule beta;        /* exponent of the importance weights by train step; 0 to 10, default 0.4 throughout. The
                                  weights are divided as the replay's weight_norm says */
    gpur_returns_config returns; /* the cache of returns; default: none */
    gpur_replay *demonstrations; /* a second replay, from which a part of each batch is drawn (see learner.h); NULL, the
                                    default: there is none */
    float demonstration_ratio;   /* that part: above 0 and below 1, and a whole number of batch_size rows; default 0.5.
                                    Not read without demonstrations */
    float target_rate;           /* of a copy to the target network, target += target_rate (w - target): above 0 to 1.
                                    1, the default: target = w. Soft targets [Lillicrap et al. 2016, algorithm 1] have
                                    target_period 1 and a small rate, such as 0.005 */
} gpur_dqn_config;

/*
 * Sets every member to its default: a Q head on two dense layers of 128 units, Adam with learning rate 1e-3, double
 * DQN, Huber loss. `size` is sizeof(gpur_dqn_config). network.num_actions has no default and must be set. Any
 * thread.
 *
 *   GPUR_INVALID_ARGUMENT  NULL, or a size below 8 or above 65,536
 */
GPUR_API gpur_status gpur_dqn_config_init(gpur_dqn_config *config, uint64_t size);

/*
 * Sets the network, loss, optimizer, batch size, target copies and exploration of a published system, with all of its
 * constants. Members that the system does not specify (seed, act, math, ...) keep their values. Any thread.
 *
 *   "melee-gpu"       dueling DQN of in-GPU replay [Parr 2018, section 4.2]: 128, then two branches of 512; RMSProp; 5
 *                     actions
 *   "melee-dqn"       128-256-A [Parr, Dilipkumar & Liu 2017]: plain DQN; 5 actions
 *   "melee-double"    the same network with double DQN
 *   "nature-dqn"      three convolutions and 512 units on four frames of 84 x 84 [Mnih et al. 2015], in the version of
 *                     the baseline of Daley & Amato 2021: centered RMSProp, Glorot weights, a target copy every
 *                     C / F = 10,000 / 4 = 2,500 train steps. 18 actions, all of an Atari console: set
 *                     `network.num_actions` to those of the game
 *   "nature-dueling"  the same with two branches of 512, double DQN and gradients clipped to norm 10 [Wang et al.
 *                     2016]. Unlike in the paper, the gradient that enters the last convolution is not scaled by
 *                     1 / sqrt(2)
 *   "qr-dqn"          the network and constants of nature-dqn with 200 quantiles of each action [Dabney et al. 2018]:
 *                     Adam with learning rate 5e-5 and epsilon 0.01 / 32. Exploration falls to 0.01, which is
 *                     this library's choice
 *   "c51"             the same with 51 atoms from -10 to 10 [Bellemare et al. 2017], and learning rate 2.5e-4
 *   "apex-dqn"        the network of nature-dueling with the learner of Ape-X [Horgan et al. 2018]: batches of 512
 *                     sampled by priority (so the replay must be prioritized), squared loss, norm 40. Its epsilon is
 *                     that of the first actor, 0.4; actor i of N acts with 0.4^(1 + 7 i / (N - 1))
 *   "cartpole"        this library's own: dueling double DQN on two layers of 128; solves CartPole-v1 in under a minute
 *                     on two CPU cores
 *
 * Epsilon of the melee presets falls from 1 to 0.1 over the first fifth of training. Only the caller knows how long
 * training is: set exploration.steps, otherwise epsilon stays 1.
 *
 *   GPUR_INVALID_ARGUMENT  no such name, NULL, or `config->size` was not set; the config is unchanged
 */
GPUR_API gpur_status gpur_dqn_config_preset(gpur_dqn_config *config, const char *name);

/*
 * Creates a learner on `replay`, which must outlive it. All of its memory is allocated here, except for acting on more
 * than 64 observations at once. Any thread, also while others use the replay.
 *
 * The schema must have obs and next_obs of the same shape, both float32 or both uint8; action, one int32 or int64;
 * reward, one float32; and terminated, one byte. For a network that begins with a convolution, obs must have three
 * axes, in the order of network.input_layout. Other networks read any obs, flattened.
 *
 * A transition whose action is not 0 to num_actions - 1 does not train anything: its loss and gradient are 0, but it
 * counts in the mean over the batch. gpur_learner_stats counts such transitions. If priorities are written back, its TD
 * error is 0. While the learner exists, the replay refuses such actions where they come from host memory.
 *
 * If the schema has a field next_action_mask, uint8 of ceil(num_actions / 8) with the bits of gpur_policy_input.mask,
 * the target takes the best of the actions that next_obs allows, and where it allows none, the reward alone. Such a
 * replay is not of GPUR_LAYOUT_LANES, and its learner has no cache of returns.
 *
 *   config   settings; read before the call returns
 *   learner  receives the handle, or NULL if the call fails; destroy it with gpur_learner_destroy
 *
 *   GPUR_INVALID_ARGUMENT  a value out of its range, a field that is missing or has another type, sampling by priority
 *                          from a replay that is not prioritized, GPUR_STEP_FUSED for a learner that it cannot
 *                          compute, or NULL
 *   GPUR_OUT_OF_MEMORY     not enough memory; the message has the bytes needed and available
 *   GPUR_UNAVAILABLE       CUDA: cuBLAS was not found; the message has the folders that were searched
 *   GPUR_DEVICE_ERROR      the device failed
 */
GPUR_API gpur_status gpur_dqn_create(gpur_replay *replay, const gpur_dqn_config *config, gpur_learner **learner);
/*
 * Enqueues a refresh of the cache of returns [Daley & Amato 2021b, algorithm 1]: draws S / B blocks uniformly from the
 * visible transitions, and computes their returns with the weights after the last train step enqueued. The call returns
 * before the refresh is done, and waits as gpur_learner_train does. Only in the thread that trains.
 *
 * Entries whose transition is overwritten later train nothing when they are drawn (gpur_learner_stats.missing_rows). So
 * do the entries of a block that was not found, which draws by error leave out: where a block would end is drawn up to
 * 64 times, until the block_length transitions of that environment up to there are visible. Have far more transitions
 * of each environment than that: with 1 or 2 more, all draws of a refresh can fail, which is counted in
 * gpur_learner_stats.empty_refreshes. The blocks follow from the seed and from the number of train steps done.
 *
 *   GPUR_TOO_FEW           block_length transitions or fewer of all environments together are visible, or fewer than
 *                          the replay's min_size; the message has the counts. Nothing changes. Where no environment has
 *                          block_length of them the call succeeds: all entries are missing and train nothing, which
 *                          empty_refreshes and missing_rows of gpur_learner_stats show
 *   GPUR_INVALID_ARGUMENT  the learner has cache_size 0, or NULL
 */
GPUR_API gpur_status gpur_learner_refresh(gpur_learner *learner);

/*
 * Enqueues one train step on the transitions with the given ids. Their importance weights are 1. In a prioritized
 * replay they get new priorities, whatever index_source is. The call does not wait for the replay's min_size. Only in
 * the thread that trains. Appends wait while the gather of the transitions is enqueued (with GPUR_EXECUTOR_INLINE:
 * carried out), so that none of them is overwritten before; they do not wait for the rest of the step.
 *
 *   ids  (batch_size) in host memory, read before the call returns; an id may occur several times
 *
 *   GPUR_EVICTED           one of the transitions was overwritten; nothing is trained
 *   GPUR_INVALID_ARGUMENT  an id that is not visible yet, or NULL; nothing is trained
 *   GPUR_TOO_FEW           the replay is empty
 */
GPUR_API gpur_status gpur_learner_train_ids(gpur_learner *learner, const int64_t *ids);

/*
 * Acquires one of the learner's host batches: a buffer in host memory that the caller fills with transitions of its
 * own. The buffers are used in rotation; the call waits until the previous contents of its buffer have been copied to
 * the device. Then fill the buffer, and pass it to gpur_learner_train_host_batch or gpur_learner_release_host_batch.
 * The memory belongs to the learner.
 *
 * Any thread, so that one thread can prefetch while another trains; buffers may be filled and trained on in any order.
 * Two buffers are enough to fill one while the other is copied. A thread that prefetches needs a third one, and one
 * more for each batch that it is to be ahead.
 *
 *   rows    receives the buffer, or NULL if the call fails: (batch_size, row_bytes), packed rows as in
 *           gpur_writer_append, in host memory aligned to 256 bytes, pinned on CUDA. Its contents are undefined
 *
 *   GPUR_WOULD_BLOCK       all buffers are acquired
 *   GPUR_INVALID_ARGUMENT  the learner has host_batches 0, or NULL
 */
GPUR_API gpur_status gpur_learner_acquire_host_batch(gpur_learner *learner, void **rows);

/*
 * Releases a buffer of gpur_learner_acquire_host_batch without training on it. Any thread.
 *
 *   GPUR_INVALID_ARGUMENT  `rows` is not a buffer that is acquired, the learner has host_batches 0, or NULL
 *
 *     void *rows;
 *     gpur_learner_acquire_host_batch(learner, &rows);
 *     if (fread(rows, row_bytes, 32, file) == 32)
 *         gpur_learner_train_host_batch(learner, rows);
 *     else
 *         gpur_learner_release_host_batch(learner, rows); // the file has ended
 */
GPUR_API gpur_status gpur_learner_release_host_batch(gpur_learner *learner, void *rows);

/*
 * Enqueues one train step on rows in host memory, and returns before it is done. The call waits so that at most two
 * launches are in flight, and for calls of other threads that sample or train and were called before; the copy to the
 * device overlaps with the step before. The loss is, bit for bit, that of gpur_learner_train_ids for the same
 * transitions. The replay is not read, and may be empty: only its schema and gamma are used. Rewards are not clipped by
 * the replay's reward_clip, and no priorities are written. Only in the thread that trains.
 *
 *   rows    a buffer of gpur_learner_acquire_host_batch: it is copied to the device from there and released, so do not
 *           use it any more. Or (batch_size, row_bytes) in any other host memory: it is copied to the next free buffer
 *           first, and may be changed when the call returns
 *
 *   GPUR_WOULD_BLOCK       `rows` is the caller's own memory, and all buffers are acquired; nothing is trained
 *   GPUR_INVALID_ARGUMENT  an address inside of a buffer, a buffer that is not acquired, device memory on CUDA, a
 *                          learner with host_batches 0, or NULL; nothing is trained
 */
GPUR_API gpur_status gpur_learner_train_host_batch(gpur_learner *learner, const void *rows);

/*
 * Chooses an action for each observation, epsilon-greedily [Mnih et al. 2015, algorithm 1]: with probability epsilon
 * uniformly at random, otherwise argmax_a Q(obs, a), the first if several are equal. The weights are those that `act`
 * of the config selects, the same for all observations of a call.
 *
 *   count    1 to 1,048,576. A call with more than 64, and more than any call before, allocates memory
 *   obs      (count, ...) of the schema's obs, in host memory or in device memory. For a replay of GPUR_LAYOUT_FRAMES:
 *            whole stacks, which the caller keeps if the writer receives frames (see GPUR_OBSERVATIONS_FRAMES)
 *   epsilon  0 to 1
 *   actions  (count) int32 in host memory; filled in when the call returns
 *   stream   CUDA, obs in device memory: the cudaStream_t that wrote them. Reading waits for the work that is on it
 *            now, and later work on it waits for the reading. NULL: the observations are complete now, and have been
 *            read when the call returns. For obs in host memory, and on the CPU: NULL
 *
 * Any number of threads, at the same time as the one that trains. Their calls run one at a time; training does not wait
 * for them. Random actions depend only on the seed, on the number of calls of gpur_learner_act that succeeded before,
 * and on the observation's index in the call. To act in several threads at the same time, with an epsilon for each
 * observation, or with weights of another moment, create a policy (policy.h).
 *
 *   GPUR_INVALID_ARGUMENT  count or epsilon out of range, a stream on the CPU, a stream under capture, memory of
 *                          another GPU, or NULL
 *   GPUR_OUT_OF_MEMORY     no memory for so many observations; smaller calls still work
 */
GPUR_API gpur_status gpur_learner_act(gpur_learner *learner, int64_t count, const void *obs, float epsilon,
                                      int32_t *actions, void *stream);

/*
 * Like gpur_learner_act, by the allowed actions alone: a random action is one of these, and the best one the best of
 * these.
 *
 *   mask  (count, ceil(num_actions / 8)) as in gpur_policy_input; NULL: all actions are allowed
 *
 *   GPUR_INVALID_ARGUMENT  also: a mask that allows no action
 *
 *     const uint8_t mask[1] = {1 << 0 | 1 << 3}; // actions 0 and 3
 *     gpur_learner_act_masked(learner, 1, obs, mask, 0.1f, &action, NULL);
 */
GPUR_API gpur_status gpur_learner_act_masked(gpur_learner *learner, int64_t count, const void *obs, const uint8_t *mask,
                                             float epsilon, int32_t *actions, void *stream);

/*
 * Computes the Q values of observations. Like gpur_learner_act otherwise: threads, weights, errors and the other
 * arguments.
 *
 *   q  (count, num_actions) float32 in host memory; filled in when the call returns
 */
GPUR_API gpur_status gpur_learner_q_values(gpur_learner *learner, int64_t count, const void *obs, float *q,
                                           void *stream);

/* Returns the value of the config's exploration schedule at environment step `step`. Any thread. NULL gives 0. */
GPUR_API float gpur_learner_epsilon(gpur_learner *learner, int64_t step);

#ifdef __cplusplus
}
#endif
#endif
