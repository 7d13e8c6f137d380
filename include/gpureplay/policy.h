/* SPDX-License-Identifier: MIT */
/*
 * Policies: inference without a replay and without training. A policy is a network and its weights, which come from a
 * learner, from a file, or from memory. One with Q values chooses actions epsilon-greedily [Mnih et al. 2015,
 * algorithm 1]; one with GPUR_HEAD_SOFTMAX_VALUE draws them from its probabilities; one with GPUR_HEAD_TANH_ACTION
 * computes vectors, to which it adds Gaussian noise [Horgan et al. 2018, appendix D]; one with
 * GPUR_HEAD_SQUASHED_GAUSSIAN draws vectors from its distribution [Haarnoja et al. 2018a, appendix C].
 *
 * A learner acts by itself (gpur_learner_act). A policy is for everything that acts beside it: sampler threads that use
 * the target network for a whole target period while the learner trains [Daley & Amato 2021, section 3], an evaluation
 * with the online network, actors with an epsilon each [Horgan et al. 2018, section 4.1], or a program that only acts.
 *
 *     gpur_policy_config config;
 *     gpur_policy_config_init(&config, sizeof config);
 *     config.network = learner_config.network;
 *     config.obs = (gpur_field){"obs", GPUR_FLOAT32, {4}};
 *     config.streams = 8; // calls of gpur_policy_act that run at the same time
 *     gpur_policy_create(device, &config, &policy);
 *     gpur_policy_pull(policy, learner, GPUR_WEIGHTS_TARGET);
 *     gpur_policy_act(policy, &input, &output);
 *
 * A policy that was saved needs no settings:
 *
 *     gpur_policy_open(device, "runs/MinAtar-Breakout-1", NULL, &policy);
 *
 * Any call that uses the device can also return GPUR_DEVICE_ERROR; the policy can then only be destroyed.
 */
#ifndef GPUREPLAY_POLICY_H
#define GPUREPLAY_POLICY_H

#include "gpureplay/checkpoint.h"
#include "gpureplay/learner.h"
#include "gpureplay/math.h"
#include "gpureplay/network.h"
#include "gpureplay/replay.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * A policy. Any number of threads may call all of its functions at the same time, except gpur_policy_destroy.
 *
 * Weights are replaced as a whole. Calls of gpur_policy_act that have begun finish with the weights that they began
 * with, and calls that begin later use the new ones: no call ever mixes two sets of weights.
 */
typedef struct gpur_policy gpur_policy;

/* The most streams of a policy. */
enum { GPUR_MAX_POLICY_STREAMS = 64 };

/* Settings of gpur_policy_create. gpur_policy_config_init sets the defaults; network.num_actions and obs must then be
 * set. */
typedef struct gpur_policy_config {
    uint64_t size;               /* sizeof(gpur_policy_config), as the caller was compiled */
    gpur_network_config network; /* with any head */
    gpur_field obs;              /* an observation: float32 or uint8, of any shape. If the first layer is a convolution,
                                    it must have three axes, in the order of network.input_layout, which by default is
                                    inferred from them. The name is not read */
    int32_t max_batch;           /* the most observations of one call, 1 to 1,048,576; default 64 */
    int32_t streams;             /* how many calls of gpur_policy_act run at the same time, each on a stream and in
                                    buffers of its own, over one set of weights; further calls wait, in the order in
                                    which they were made. 1 to GPUR_MAX_POLICY_STREAMS; default 1 */
    int32_t math;                /* GPUR_MATH_*; default FP32 */
    float policy_floor;          /* GPUR_HEAD_SOFTMAX_VALUE, f: the probabilities are (softmax(logits) + f) / (1 + f
                                    num_actions); 0 or more, below 1, default 0 */
    uint64_t seed;               /* of exploration and of the initial weights; default 0 */
} gpur_policy_config;

/*
 * Sets every member to its default: the network is that of gpur_dqn_config_init. `size` is
 * sizeof(gpur_policy_config). network.num_actions and obs have no default and must be set. Any thread.
 *
 *   GPUR_INVALID_ARGUMENT  NULL, or a size below 8 or above 65,536
 */
GPUR_API gpur_status gpur_policy_config_init(gpur_policy_config *config, uint64_t size);

/*
 * Sets the network of a preset of gpur_dqn_config_preset. Other members keep their values. Any thread.
 *
 *   GPUR_INVALID_ARGUMENT  no such name, NULL, or `config->size` was not set; the config is unchanged
 *
 *     gpur_policy_config config;
 *     gpur_policy_config_init(&config, sizeof config);
 *     gpur_policy_config_preset(&config, "nature-dqn");
 *     config.network.num_actions = 6;
 *     config.obs = (gpur_field){"obs", GPUR_UINT8, {4, 84, 84}};
 *     gpur_policy_create(device, &config, &policy);
 *     gpur_policy_load(policy, "weights.safetensors", NULL);
 */
GPUR_API gpur_status gpur_policy_config_preset(gpur_policy_config *config, const char *name);

/*
 * Creates a policy. All of its memory is allocated here. Its weights are the initial weights of a learner with this
 * network and seed, in version 0. Any thread.
 *
 *   config  settings; read before the call returns
 *   policy  receives the handle, or NULL if the call fails; destroy it with gpur_policy_destroy
 *
 *   GPUR_INVALID_ARGUMENT  a value out of its range, an observation that does not fit the network, or NULL
 *   GPUR_OUT_OF_MEMORY     not enough memory; the message has the bytes needed and available
 *   GPUR_UNAVAILABLE       CUDA: cuBLAS was not found; the message has the folders that were searched
 */
GPUR_API gpur_status gpur_policy_create(gpur_device *device, const gpur_policy_config *config, gpur_policy **policy);
/*
 * Makes a policy from a file alone: network and observations are those that the file describes, and the weights are
 * loaded from it.
 *
 *   path    a file of gpur_learner_save (of DPG and SAC the policy has the actor),
 *           of gpur_learner_save_weights or gpur_policy_save; or the folder of a run, or of a checkpoint, which has
 *           "learner.safetensors" or "checkpoint/learner.safetensors": of two the one after more train steps. Action
 *           vectors are -1 to 1; the environment's bounds are in the folder's config.json
 *   config  the settings beside network, obs and policy_floor, which are not read; NULL: the defaults
 *   policy  receives the handle, or NULL if the call fails; destroy it with gpur_policy_destroy
 *
 *   GPUR_FILE_ERROR  as gpur_policy_load says; or the file does not describe its network: it is of another program, or
 *                    of this library before files did. Such weights are loaded by gpur_policy_create and
 *                    gpur_policy_load
 *   and the errors of gpur_policy_create and gpur_policy_load
 */
GPUR_API gpur_status gpur_policy_open(gpur_device *device, const char *path, const gpur_policy_config *config,
                                      gpur_policy **policy);

/*
 * Reads the settings of a policy, those of its file included: network.num_actions and obs say how large its arrays are.
 * network.input_layout is what GPUR_INPUT_AUTO has become. Any thread.
 *
 *   config  `size` is set by the caller; the other members are filled in, obs.name with NULL
 *
 *   GPUR_INVALID_ARGUMENT  NULL, or `config->size` was not set
 *
 *     gpur_policy_config config = {.size = sizeof config};
 *     gpur_policy_open(device, "runs/MinAtar-Breakout-1", NULL, &policy);
 *     gpur_policy_get_config(policy, &config);
 *     float *const q = malloc((size_t)config.network.num_actions * sizeof *q);
 */
GPUR_API gpur_status gpur_policy_get_config(gpur_policy *policy, gpur_policy_config *config);

/* Waits for the policy's work, and then frees the policy. Call it from any thread, but not while another thread is
 * inside of a call with it. NULL does nothing. */
GPUR_API void gpur_policy_destroy(gpur_policy *policy);

/*
 * The observations of one call of gpur_policy_act. Set all members to 0 before, so that members of later versions are
 * 0, too.
 *
 * A random action, like a vector's noise or draw, is a pure function of the policy's seed and of the row's lane and
 * step. So actions do not depend on how observations are divided into calls, on the thread, or on the stream, if the
 * caller gives each row the number of its environment as the lane, and the number of that environment's step as the
 * step. (The Q values of an observation may differ in their last bits with the other observations of the call, and so
 * may mu.)
 *
 * Without `step` each call that chooses actions draws new random numbers, as gpur_learner_act does: a policy with the
 * weights, the seed and the calls of a learner chooses the same actions. Which numbers a call gets then depends on the
 * order in which threads call.
 */
typedef struct gpur_policy_input {
    uint64_t size;        /* sizeof(gpur_policy_input), as the caller was compiled */
    int64_t count;        /* number of observations, 1 to max_batch */
    const void *obs;      /* (count, ...) as config.obs, in host memory or in device memory */
    const float *epsilon; /* (count) in host memory: the probability of a random action, 0 to 1; NULL: 0 for all */
    const uint32_t *lane; /* (count) in host memory; NULL: the lane of row i is i */
    const uint64_t *step; /* (count) in host memory; NULL: for all rows the number of earlier calls that chose actions
                             with NULL here */
    void *stream;         /* CUDA, obs in device memory: the cudaStream_t that wrote them, as in gpur_learner_act */
    int32_t greedy;       /* GPUR_HEAD_SOFTMAX_VALUE. 1: the most probable action, the first if several are equal; 0:
                             an action drawn from the probabilities. In both cases with probability epsilon a uniformly
                             random one. GPUR_HEAD_SQUASHED_GAUSSIAN. 1: tanh(mean(obs)); 0: an action drawn from the
                             distribution. Others: 0 */
    int32_t reserved;     /* 0 */
    const float *sigma;   /* GPUR_HEAD_TANH_ACTION: (count) in host memory: the standard deviation of the noise, 0 or
                             more; NULL: 0 for all, which is no noise. epsilon is NULL then */
    const uint8_t *mask;  /* (count, ceil(num_actions / 8)) in host memory: bit k % 8 of byte k / 8, counted from the
                             least significant, is 1 if action k is allowed. Only allowed actions are chosen, also at
                             random, and the probability of others is 0. Heads with action vectors: NULL. NULL: all are
                             allowed */
} gpur_policy_input;

/* What gpur_policy_act computes. All arrays are the caller's, in host memory, and filled in when the call returns. At
 * least one of them other than `version` must be given. Set all members to 0 before. */
typedef struct gpur_policy_output {
    uint64_t size;    /* sizeof(gpur_policy_output), as the caller was compiled */
    int32_t *actions; /* (count) with probability epsilon uniformly random, otherwise argmax_a Q(obs, a), the first if
                         several are equal, or as `greedy` says; NULL: not wanted */
    float *q;         /* (count, num_actions) Q(obs, a); NULL: not wanted, as with GPUR_HEAD_SOFTMAX_VALUE */
    int64_t *version; /* (1) the version of the weights that were used, the same for all rows; NULL: not wanted */
    float *probabilities;  /* GPUR_HEAD_SOFTMAX_VALUE: (count, num_actions); NULL: not wanted */
    float *values;         /* GPUR_HEAD_SOFTMAX_VALUE: (count) V(obs); NULL: not wanted */
    float *action_vectors; /* GPUR_HEAD_TANH_ACTION: (count, num_actions) clip(mu(obs) + sigma N(0, 1), -1, 1), with a
                              number of its own for each component. GPUR_HEAD_SQUASHED_GAUSSIAN: (count, num_actions)
                              actions in [-1, 1] from its distribution. The only output of both, beside log_probs.
                              Other heads: NULL */
    float *log_probs; /* GPUR_HEAD_SQUASHED_GAUSSIAN, beside action_vectors: (count) log pi(a | obs), the logarithm of
                         the density of the action in action_vectors; NULL: not wanted */
} gpur_policy_output;

/*
 * Computes actions and Q values of observations in one forward pass. Any number of threads; waits while `streams` other
 * calls run. Allocates no memory.
 *
 *   GPUR_INVALID_ARGUMENT  count, an epsilon or a sigma out of range, an output that the head does not have, a mask
 *                          that allows no action, a stream on the CPU, a stream under capture, memory of another GPU,
 *                          or NULL; nothing is computed
 */
GPUR_API gpur_status gpur_policy_act(gpur_policy *policy, const gpur_policy_input *input,
                                     const gpur_policy_output *output);

/*
 * Returns the version of the policy's weights, a number of 0 or more that goes with them: after gpur_policy_pull the
 * learner's number of train steps, after gpur_policy_load that of the file, after gpur_policy_set_weights that of the
 * sender. Any thread. NULL gives 0.
 *
 *     gpur_policy_pull(policy, learner, GPUR_WEIGHTS_ONLINE);
 *     printf("acts by the weights after %" PRId64 " train steps\n", gpur_policy_version(policy));
 */
GPUR_API int64_t gpur_policy_version(gpur_policy *policy);

/*
 * Copies the weights of a learner, on the device. They are the weights after the last launch of the learner that was
 * enqueued before the copy, never from within a launch, and their version is the number of train steps enqueued until
 * then (steps_enqueued of gpur_learner_stats). The call returns before the copy is done: it waits for other threads
 * that are enqueuing work for the learner's replay, and not for the work itself (on the CPU, enqueuing a launch takes
 * about as long as the launch). Later calls of gpur_policy_act wait for the copy on the device; the learner's next
 * launch waits there for calls of gpur_policy_act that still read the weights before the current ones. Any thread.
 *
 *   learner  must be on the device of the policy, opened by the same gpur_device_open. Its network must have the same
 *            tensors, and the same activation, stride and padding in each layer. Its obs may differ in type, scale,
 *            shift and order of axes
 *   which    GPUR_WEIGHTS_ONLINE or GPUR_WEIGHTS_TARGET
 *
 *   GPUR_INVALID_ARGUMENT  another device, another network (the message has the first tensor that differs, and both
 *                          shapes), another `which`, NULL, or the learner has diverged (learner.h). The weights are
 *                          unchanged
 */
GPUR_API gpur_status gpur_policy_pull(gpur_policy *policy, gpur_learner *learner, int32_t which);

/*
 * Loads weights from a file: of gpur_policy_save or gpur_learner_save_weights, of gpur_learner_save (the online
 * weights), or a safetensors file of another program with this network's tensors in float32 and no others. The version
 * is that of the file; for a learner the number of train steps enqueued, and 0 for a file of another program. Waits
 * while `streams` calls of gpur_policy_act run. Any thread.
 *
 *   path      the name of a file
 *   options   may be NULL
 *
 *   GPUR_INVALID_ARGUMENT  a tensor is missing, is not this network's, or has another type or shape; the learner had
 *                          another network; or NULL for the policy or the path. The weights are unchanged
 *   GPUR_FILE_ERROR        see checkpoint.h; or weights are NaN or infinite; the message has the tensor and the number
 *                          of such values. The weights are unchanged
 *   GPUR_OUT_OF_MEMORY     no host memory for the file. The weights are unchanged
 *   GPUR_UNAVAILABLE, GPUR_INTERRUPTED  see checkpoint.h
 */
GPUR_API gpur_status gpur_policy_load(gpur_policy *policy, const char *path, const gpur_checkpoint_options *options);

/*
 * Writes the weights and their version: a safetensors file with the tensors that gpur_policy_get_weights lists, by
 * name, in float32. Waits while `streams` calls of gpur_policy_act run. Any thread.
 *
 *   path      the name of a file in an existing folder
 *   options   may be NULL
 *
 *   GPUR_INVALID_ARGUMENT  NULL for the policy or the path, or options that were not initialized
 *   GPUR_OUT_OF_MEMORY     no host memory for the weights
 *   GPUR_FILE_ERROR        weights are NaN or infinite, as of a learner that had diverged; or see checkpoint.h
 *   GPUR_UNAVAILABLE, GPUR_INTERRUPTED  see checkpoint.h
 */
GPUR_API gpur_status gpur_policy_save(gpur_policy *policy, const char *path, const gpur_checkpoint_options *options);

/* Returns the bytes of gpur_policy_get_weights, the same for all policies of equal networks. Any thread. NULL gives
 * 0. */
GPUR_API int64_t gpur_policy_weights_bytes(gpur_policy *policy);

/*
 * Copies all weights to host memory, in a form that can be sent to other processes and machines: a header of 64 bytes,
 * and then the tensors, each as float32 in the order of its shape. All numbers are little-endian. The header:
 *
 *   bytes 0 to 7    "GPURWTS1"
 *   8 to 15         uint64: a hash of the tensors' names and shapes. Take it from the bytes of a policy of an equal
 *                   network
 *   16 to 23        int64: how many float32 follow
 *   24 to 31        int64: the version of the weights, 0 or more
 *   32 to 63        0
 *
 * The tensors, whatever the head: layer by layer, the trunk first ("trunk.0"), then the hidden layers of the head's
 * branches, then their output layers; of each layer ".weight" and then ".bias". The branches are "q"; dueling: "value"
 * and "advantage"; softmax: "policy" and "value"; action vectors: "action", or "mean" and "log_std" (log sigma). A
 * hidden layer is "value.hidden", an output layer "value.out". A bias is (units). The weight of a dense layer is
 * (units, inputs), with the inputs after a convolution in the order height, width, channels; that of a convolution
 * (filters, kernel rows, kernel columns, channels).
 *
 * Waits while `streams` calls of gpur_policy_act run. Any thread.
 *
 *   weights  (bytes) in host memory; filled in when the call returns
 *   bytes    gpur_policy_weights_bytes
 *
 *   GPUR_INVALID_ARGUMENT  another number of bytes, or NULL
 *   GPUR_OUT_OF_MEMORY     no host memory for a copy of the weights
 */
GPUR_API gpur_status gpur_policy_get_weights(gpur_policy *policy, void *weights, int64_t bytes);

/*
 * Sets all weights and their version from the bytes of gpur_policy_get_weights of a policy with an equal network, on
 * any device. Waits while `streams` calls of gpur_policy_act run. Any thread.
 *
 *   weights  (bytes) in host memory, at any address; read before the call returns
 *
 *   GPUR_INVALID_ARGUMENT  another number of bytes, a damaged header, weights of another network, weights that are NaN
 *                          or infinite, or NULL. The weights are unchanged
 *   GPUR_OUT_OF_MEMORY     no host memory for a copy of the weights. The weights are unchanged
 *
 *     const int64_t bytes = gpur_policy_weights_bytes(policy);
 *     void *const weights = malloc((size_t)bytes);
 *     gpur_policy_get_weights(policy, weights, bytes);
 *     gpur_policy_set_weights(other_policy, weights, bytes); // on another machine, say
 *     free(weights);
 */
GPUR_API gpur_status gpur_policy_set_weights(gpur_policy *policy, const void *weights, int64_t bytes);

/* What gpur_policy_get_stats reports. */
typedef struct gpur_policy_stats {
    uint64_t size;        /* sizeof(gpur_policy_stats), as the caller was compiled: set it before the call */
    int64_t calls;        /* calls of gpur_policy_act that succeeded */
    int64_t observations; /* observations of these calls */
    int64_t version;      /* as gpur_policy_version */
    int64_t device_bytes; /* device memory of this policy */
    int64_t pinned_bytes; /* host memory of this policy, pinned on CUDA */
} gpur_policy_stats;

/*
 * Reads the statistics. Does not wait. Any thread.
 *
 *   stats  `size` is set by the caller; the other members are filled in
 *
 *   GPUR_INVALID_ARGUMENT  NULL, or `stats->size` was not set
 *
 *     gpur_policy_stats stats = {.size = sizeof stats};
 *     gpur_policy_get_stats(policy, &stats);
 *     printf("%.1f observations a call\n", (double)stats.observations / (double)stats.calls);
 */
GPUR_API gpur_status gpur_policy_get_stats(gpur_policy *policy, gpur_policy_stats *stats);

#ifdef __cplusplus
}
#endif
#endif
