/* SPDX-License-Identifier: MIT */
/*
 * Learner: a network, a loss, an optimiser and a target rule over a replay. A train step (draw, gather, forward,
 * target, loss, backward, update, target copy, new priorities) is recorded once and replayed on the device, with no
 * host round trip.
 */
#ifndef GPUREPLAY_LEARNER_H
#define GPUREPLAY_LEARNER_H

#include "gpureplay/network.h"
#include "gpureplay/optimizer.h"
#include "gpureplay/priority.h"
#include "gpureplay/replay.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A network that trains on a replay. One thread trains; any number, this one too, act and ask at the same time. */
typedef struct gpur_learner gpur_learner;

/* Of the TD error d: d^2 / 2, or Huber's, which is that up to delta and delta (|d| - delta / 2) beyond [Huber 1964]. */
enum { GPUR_LOSS_HUBER = 0, GPUR_LOSS_SQUARED = 1 };

/* Arithmetic of the matrix products and convolutions. Master weights, sums, the head's layer, targets and losses are
 * float32 throughout. The CPU computes float32 whatever is asked for. */
enum {
    GPUR_MATH_FP32 = 0,
    GPUR_MATH_TF32 = 1, /* CUDA: tensor cores with 10-bit mantissas */
    GPUR_MATH_BF16 = 2, /* CUDA: tensor cores on factors rounded to bfloat16, 7-bit mantissas */
};

/* Which weights gpur_learner_act uses. A launch is at most GPUR_LAUNCH_STEPS train steps: see gpur_learner_train. */
enum {
    GPUR_ACT_LATEST = 0,   /* as after the last launch enqueued, waiting for it */
    GPUR_ACT_PREVIOUS = 1, /* as after the launch before, so that acting overlaps training */
    GPUR_ACT_TARGET = 2,   /* the target network as the last launch enqueued finds it, so that acting overlaps training
                              [Daley & Amato 2021, concurrent training] */
};

/* How gpur_learner_train computes steps: with the same draws and state, losses agree but for the order of sums. One
 * kernel for whole steps is for GPUs and small networks: two dense layers below the last, GPUR_MATH_FP32, a packed
 * replay, obs of float32, input_scale 1; others are refused with what it wants. Acting may wait for a launch of it.
 * GPUR_STEP_AUTO is the libraries until a GPU has told which is faster; train_on and train_rows always are. */
enum { GPUR_STEP_AUTO = 0, GPUR_STEP_LIBRARIES = 1, GPUR_STEP_ONE_KERNEL = 2 };

/* Most batches in host memory that a learner keeps for gpur_learner_get_rows. */
enum { GPUR_MAX_HOST_BATCHES = 16 };

/* Settings of gpur_learner_create; gpur_learner_config_init fills in the defaults. */
typedef struct gpur_learner_config {
    uint64_t size;                   /* sizeof(gpur_learner_config), as the caller was compiled */
    gpur_network_config network;     /* acts on `obs` of the replay: an image before a convolution, else flattened */
    gpur_optimizer_config optimizer; /* of every weight */
    int32_t double_dqn;              /* 1: a* = argmax_a Q(s', a), y = r + discount Q_target(s', a*) [van Hasselt et al.
                                        2016, eq. 4]; 0: y = r + discount max_a Q_target(s', a) [Mnih et al. 2015] */
    int32_t loss;                    /* GPUR_LOSS_*; the mean over the batch */
    float huber_delta;               /* Huber: squared up to this, linear beyond; default 1 */
    int32_t index_source;            /* GPUR_SOURCE_AUTO, the default: as the replay draws, by priority where it is
                                        prioritized. Or GPUR_UNIFORM*, or over a prioritized replay GPUR_PRIORITIZED*.
                                        By priority, each step gives its transitions their |TD error| + priority_offset
                                        as priorities, and weighs their losses [Schaul et al. 2016, algorithm 1] */
    int64_t batch_size;              /* default 32 */
    int64_t target_period;           /* train steps between hard target copies; default 10,000 */
    int32_t target_copy_first;       /* 0: copies after steps period, 2 period, ...; 1: after steps 1, period + 1,
                                        2 period + 1, ..., as Parr's code does, which counts its steps from 0 */
    int32_t act;                     /* GPUR_ACT_* */
    int32_t max_act_batch;           /* most observations in one act or q_values call; default 64 */
    int32_t math;                    /* GPUR_MATH_* */
    int32_t unroll;                  /* steps in CUDA's long graph, or in one kernel; 1 to 64, default 8 */
    int32_t dense_graphs;            /* CUDA, TF32 and BF16: 1 computes dense layers by graphs of cuDNN's, compiled
                                        at creation, where it has them; 0, the default, by cuBLASLt */
    gpur_schedule exploration;       /* epsilon by environment step, for gpur_learner_epsilon */
    uint64_t seed;                   /* of initial weights, draws and exploration */
    int32_t host_batches;            /* buffers of batch_size packed rows in host memory, pinned on CUDA, for
                                        gpur_learner_get_rows; 0 to GPUR_MAX_HOST_BATCHES; default 0 */
    int32_t deterministic;           /* CUDA: 1 keeps convolutions to ways that repeat their bits; 0: the fastest way */
    gpur_schedule beta;              /* exponent of the importance weights, by train step; 0 to 10, default 0.4
                                        throughout. The replay's weight_norm says what they are divided by */
    int32_t step_kernel;             /* GPUR_STEP_* */
    int32_t reserved;                /* 0 */
} gpur_learner_config;

/*
 * Defaults: Q head on two dense layers of 128, Adam at 1e-3, double DQN, Huber. `outputs` must still be set. Any
 * thread. GPUR_INVALID_ARGUMENT: NULL or a bad size.
 */
GPUR_API gpur_status gpur_learner_config_init(gpur_learner_config *config, uint64_t size);

/*
 * A published system's network, loss, optimiser, batch and target period, with every constant.
 *   "melee-gpu"     dueling DQN of in-GPU replay [Parr 2018, section 4.2]: 128, then two streams of 512; RMSProp; A = 5
 *   "melee-dqn"     128-256-A [Parr, Dilipkumar & Liu 2017], plain DQN: the target network picks and values the action
 *   "melee-double"  the same network, double DQN
 *   "nature-dqn"    three convolutions and 512 on four frames of 84 x 84 [Mnih et al. 2015], as the baseline of
 *                   Daley & Amato 2021 has it: centred RMSProp, Glorot weights, a target copy every C / F = 10,000 / 4
 *                   train steps; A = 18, every action of an Atari console: set `outputs` to the game's own
 *   "nature-dueling"  the same, but two streams of 512, double DQN and gradients clipped to norm 10 [Wang et al. 2016];
 *                   these gradients are not scaled by 1 / sqrt(2) where the streams meet
 *   "apex-dqn"      that network with the learner of Ape-X [Horgan et al. 2018]: batches of 512, drawn by priority from
 *                   a replay that has them, squared loss, norm 40. Its epsilon is the first actor's, 0.4, as actor i of
 *                   N acts with 0.4^(1 + 7 i / (N - 1))
 *   "cartpole"      ours: dueling double DQN, two layers of 128; solves CartPole-v1 in under a minute on two CPU cores
 * The melee presets' epsilon falls from 1 to 0.1 over the first fifth of training, whose length only the caller knows:
 * set exploration.steps to it, or epsilon stays 1. What a preset does not name (seed, act, math, ...) stays as it was.
 * Any thread. GPUR_INVALID_ARGUMENT: no such name, NULL, or a config that was not initialised; it stays as it was.
 */
GPUR_API gpur_status gpur_learner_config_preset(gpur_learner_config *config, const char *name);

/*
 * Makes a learner over `replay`, whose schema must have obs and next_obs of one shape, both float32 or both uint8,
 * int32 or int64 action, float32 reward and a one-byte terminated. A network that begins with a convolution wants obs
 * of three axes, as network.input_layout says; others read any obs flattened. The replay must outlive it. All memory is
 * taken here. Any thread, also while others use the replay.
 *
 * A transition whose action is none of 0 ... outputs - 1 trains nothing: its loss and its gradient are zero, the mean
 * is still over the whole batch, and gpur_learner_stats counts it; where priorities are written back, its error is 0.
 *
 *   GPUR_INVALID_ARGUMENT  a config out of range, a field that is missing or of another type, draws by priority from a
 *                          replay that has none, GPUR_STEP_ONE_KERNEL for a learner that it is not for, NULL
 *   GPUR_OUT_OF_MEMORY     with the bytes wanted and free
 *   GPUR_UNAVAILABLE       CUDA: cuBLAS was not found; the message has the places searched
 */
GPUR_API gpur_status gpur_learner_create(gpur_replay *replay, const gpur_learner_config *config,
                                         gpur_learner **learner);
/* Waits for its work and frees it, when no other thread is in a call on it. The replay stays. Takes NULL. */
GPUR_API void gpur_learner_destroy(gpur_learner *learner);

/* Most train steps in one launch: enough to pay for it, few enough that an append, which may wait for two launches,
 * does not wait long. */
enum { GPUR_LAUNCH_STEPS = 256 };

/*
 * Enqueues `steps` train steps and returns before the last is done. They are carried out in launches of at most
 * GPUR_LAUNCH_STEPS steps, all but the last full; `launch` elsewhere in this header means one of them, and a call of
 * gpur_learner_train_on or gpur_learner_train_rows is one too. Waits only to keep at most two launches in
 * flight. One thread at a time. Writers, gpur_learner_act and the calls that only ask go on meanwhile.
 *
 *   GPUR_INVALID_ARGUMENT  steps below 0, or NULL
 *   GPUR_TOO_FEW           nothing is visible, fewer than batch_size for a distinct draw, or fewer than the replay's
 *                          min_size have become visible so far (the message has the counts); nothing is trained
 */
GPUR_API gpur_status gpur_learner_train(gpur_learner *learner, int64_t steps);

/*
 * One train step on the transitions of these ids: (batch_size) in host memory, free to reuse when the call returns.
 * Their weights are 1; in a prioritized replay they get new priorities, whatever index_source is. By the thread that
 * trains; it does not wait for min_size. An append waits while the step is enqueued (with GPUR_EXECUTOR_INLINE: carried
 * out), so that it overwrites none of them.
 *
 *   GPUR_EVICTED           a transition that has been overwritten; nothing is trained
 *   GPUR_INVALID_ARGUMENT  an id that is not visible yet, or NULL; nothing is trained
 *   GPUR_TOO_FEW           nothing is visible
 */
GPUR_API gpur_status gpur_learner_train_on(gpur_learner *learner, const int64_t *ids);

/*
 * Hands out a buffer for one batch that is kept in RAM: the next in turn of config.host_batches, once what was last
 * trained on from it has been copied up. Write the rows there, then give it back with gpur_learner_train_rows, or with
 * gpur_learner_return_rows; the buffer stays the learner's.
 *
 *   rows    (batch_size, row_bytes), packed as gpur_replay_get_field tells; host memory aligned to 256 bytes, pinned
 *           on CUDA. It holds whatever was in it
 *
 * Any thread, and so one that prefetches while another trains: buffers may be filled and trained on in any order. With
 * two, one is filled while the other is copied up; a prefetching thread wants one more, and one for each batch that it
 * is to be ahead.
 *
 *   GPUR_WOULD_BLOCK       all of them are out; `rows` is NULL
 *   GPUR_INVALID_ARGUMENT  the learner was made with host_batches 0, or NULL
 */
GPUR_API gpur_status gpur_learner_get_rows(gpur_learner *learner, void **rows);

/*
 * Gives a buffer of gpur_learner_get_rows back that is not to be trained on after all, as by a prefetching thread that
 * ends. Any thread.
 *
 *   GPUR_INVALID_ARGUMENT  `rows` is no buffer that is out, the learner was made with host_batches 0, or NULL
 */
GPUR_API gpur_status gpur_learner_return_rows(gpur_learner *learner, void *rows);

/*
 * One train step on rows in RAM. Enqueues it and returns before it is done; it waits only to keep at most two launches
 * in flight, of which it is one, and the copy up overlaps with the step before. The loss is, bit for bit, that of
 * gpur_learner_train_on with the same transitions. The replay lends its schema, its gamma and its turn, and is not
 * read: it may be empty. Rewards are taken as they are, whatever the replay's reward_clip. By the thread that trains.
 *
 *   rows    a buffer of gpur_learner_get_rows, which is copied up straight from there and given back: do not touch it
 *           any more. Or (batch_size, row_bytes) in any other host memory, which the call copies into the next buffer
 *           first: free to reuse when the call returns
 *
 *   GPUR_WOULD_BLOCK       rows of the caller's own, and all buffers are out; nothing is trained
 *   GPUR_INVALID_ARGUMENT  a place inside a buffer, a buffer that is not out, memory of the device on CUDA,
 *                          host_batches 0, or NULL; nothing is trained
 */
GPUR_API gpur_status gpur_learner_train_rows(gpur_learner *learner, const void *rows);

/* Waits for all train steps enqueued. Any thread. GPUR_INVALID_ARGUMENT: NULL. */
GPUR_API gpur_status gpur_learner_sync(gpur_learner *learner);

/*
 * Chooses actions: with probability epsilon uniformly at random, else argmax_a Q(obs, a), the first of equals.
 *
 *   count    1 to max_act_batch
 *   obs      (count, ...) of the schema's obs, float32 or uint8; host memory or memory of the learner's device. With
 *            GPUR_LINKED whole stacks, which the caller keeps where its writer is given frames: see GPUR_INPUT_FRAMES
 *   epsilon  0 to 1
 *   actions  (count) int32, host memory; filled in when the call returns
 *   stream   CUDA, obs in device memory: the cudaStream_t that made them, which is ordered before the reading and after
 *            it; else NULL. NULL with obs in device memory: they are ready now. They have been read on return
 *
 * Any number of threads, beside the one that trains; they take turns, and training does not wait for them. Random
 * actions follow from the seed and the number of acts before.
 *
 *   GPUR_INVALID_ARGUMENT  count or epsilon out of range, a stream on the CPU, memory of another GPU, or NULL
 */
GPUR_API gpur_status gpur_learner_act(gpur_learner *learner, int64_t count, const void *obs, float epsilon,
                                      int32_t *actions, void *stream);

/*
 * The Q values behind it: (count, outputs) float32, host memory; filled in when the call returns. The rest, errors and
 * threads too, as gpur_learner_act.
 */
GPUR_API gpur_status gpur_learner_q_values(gpur_learner *learner, int64_t count, const void *obs, float *q,
                                           void *stream);

/* The exploration schedule at environment step `step`. Any thread. NULL gives 0. */
GPUR_API float gpur_learner_epsilon(gpur_learner *learner, int64_t step);

/* What gpur_learner_get_stats tells. */
typedef struct gpur_learner_stats {
    uint64_t size;            /* sizeof(gpur_learner_stats), as the caller was compiled: set it before the call */
    int64_t steps;            /* train steps finished */
    int64_t steps_enqueued;   /* asked for since creation */
    int64_t skipped;          /* steps that found an empty window and changed nothing */
    int64_t target_copies;    /* hard copies of the online weights to the target network */
    float loss;               /* of the last finished step */
    float mean_loss;          /* over the steps finished since the stats before */
    float mean_q;             /* of the last finished step: mean over the batch of Q(s, a) */
    float gradient_norm;      /* of the last finished step, before any clipping */
    float learning_rate;      /* that the last finished step used */
    float reserved;           /* 0 */
    double steps_per_second;  /* since the stats before */
    int64_t device_bytes;     /* of the device's memory, held by this learner */
    int64_t acts;             /* actions chosen */
    int64_t invalid_actions;  /* transitions that trained nothing: their action was none of 0 ... outputs - 1 */
    int64_t pinned_bytes;     /* of host memory, pinned on CUDA, held by this learner */
} gpur_learner_stats;

/*
 * As of the last finished launch; call gpur_learner_sync first for all of them. Does not wait. Any thread; the stats
 * before are those of any thread. GPUR_INVALID_ARGUMENT: NULL, or `stats->size` was not set.
 */
GPUR_API gpur_status gpur_learner_get_stats(gpur_learner *learner, gpur_learner_stats *stats);

/* Which copy of the weights. */
enum { GPUR_WEIGHTS_ONLINE = 0, GPUR_WEIGHTS_TARGET = 1, GPUR_WEIGHTS_GRADIENT = 2 };

/* One tensor of the network. */
typedef struct gpur_weight_info {
    uint64_t size;           /* sizeof(gpur_weight_info), as the caller was compiled: set it before the call */
    char name[64];           /* "trunk.0.weight", "value.hidden.bias", "advantage.out.weight", ... */
    int32_t dims;            /* 1, 2 or 4 */
    int32_t shape[4];        /* weight (units, inputs), or of a convolution (filters, kernel, kernel, channels): rows,
                                columns; the inputs of a dense layer behind one are its (H, W, C); bias (units) */
    int32_t reserved;        /* 0 */
    int64_t count;           /* float32 numbers */
} gpur_weight_info;

/* How many tensors the network has. Any thread. NULL gives 0. */
GPUR_API int32_t gpur_learner_weight_count(gpur_learner *learner);

/*
 * Describes tensor `index`, 0 to gpur_learner_weight_count - 1. Any thread. GPUR_INVALID_ARGUMENT: no such index, NULL,
 * or `info->size` was not set.
 */
GPUR_API gpur_status gpur_learner_weight(gpur_learner *learner, int32_t index, gpur_weight_info *info);

/*
 * Copies one tensor to host memory, as it is behind the last train step enqueued, which is waited for. Any thread.
 *
 *   which    GPUR_WEIGHTS_*
 *   name     as gpur_learner_weight tells
 *   values   (count) float32; count must be the tensor's
 *
 *   GPUR_INVALID_ARGUMENT  no such name, `which` or count, or NULL
 *   GPUR_OUT_OF_MEMORY     no host memory for one tensor more
 */
GPUR_API gpur_status gpur_learner_read_weights(gpur_learner *learner, int32_t which, const char *name, float *values,
                                               int64_t count);

/*
 * The other way, between two train steps, waited for; gradients cannot be written. Any thread, and errors as
 * gpur_learner_read_weights; GPUR_INVALID_ARGUMENT also for values that are NaN or infinite, with how many they are.
 * gpur_learner_act uses the new ones at once where they are those it follows: the target's under GPUR_ACT_TARGET, else
 * the online ones. Writing the online weights leaves the target's as they are until the next copy.
 */
GPUR_API gpur_status gpur_learner_write_weights(gpur_learner *learner, int32_t which, const char *name,
                                                const float *values, int64_t count);

#ifdef __cplusplus
}
#endif
#endif
