/* SPDX-License-Identifier: MIT */
/*
 * Inference: the forward pass and the choice of actions for a batch of observations, on a stream and in buffers of
 * its own. A call of it uploads the observations, runs, and downloads the results, in the order of the functions below.
 * One thread at a time may use an inference; others may use other inferences of the same network meanwhile.
 */
#pragma once

#include "learn/network/input.h"

#include <stdatomic.h>

/* The results of acting by a head; inference.c has the table of heads. */
typedef enum gpur_acted {
    GPUR_ACTED_BY_Q,             /* an action, and the value of each action */
    GPUR_ACTED_BY_PROBABILITIES, /* an action, the probability of each, and the value of the observation */
    GPUR_ACTED_VECTORS,          /* an action vector, to which noise is added */
    GPUR_ACTED_DRAWN_VECTORS     /* an action vector drawn from a distribution, or its most central one */
} gpur_acted;
gpur_acted gpur_acted_by(int32_t head);

/* Buffers for calls of up to N observations. */
typedef struct gpur_inference_buffers {
    int64_t capacity; /* N */
    gpur_pass pass;
    void *raw;              /* (N, obs) device, contiguous; if the input is direct, the network's input itself */
    gpur_explore_row *rows; /* (N) device */
    float *q;               /* (N, copies x A) device: of each action its value or its probability; or action vectors */
    float *value;           /* (N) device: V, where there are probabilities; of drawn vectors log pi; else (0) */
    int32_t *action;        /* (N) device */
    unsigned char *mask;    /* (N, ceil(A / 8)) device: allowed actions; of a head without discrete actions (0) */
    void *workspace;
    void *memory; /* device memory of all the above; NULL: it is in the owner's */
    void *pinned;
    int64_t pinned_bytes;
    void *host_obs;              /* pinned: (N, obs) */
    gpur_explore_row *host_rows; /* pinned: (N) */
    float *host_q;               /* pinned: (N, A) */
    float *host_value;           /* pinned: as `value` */
    int32_t *host_action;        /* pinned: (N) */
    unsigned char *host_mask;    /* pinned: as `mask` */
} gpur_inference_buffers;

typedef struct gpur_inference {
    gpur_device *device;
    const gpur_network *network;
    gpur_input input;
    gpur_pass_options options;
    float policy_floor; /* of a SOFTMAX_VALUE head: see gpur_policy_config */
    gpur_stream *stream;
    gpur_inference_buffers buffers;
    _Atomic int64_t pinned_bytes; /* of the buffers */
    _Atomic int64_t grown_bytes;  /* device memory of the buffers, outside the owner's */
} gpur_inference;

/* Creates the stream and the buffers, except their device memory, which `assign` places. The network must not move, and
 * is one of `config`, which reads `obs`. After a failure call gpur_inference_close, which also accepts a zeroed
 * inference. */
gpur_status gpur_inference_open(gpur_inference *inference, gpur_device *device, const gpur_network *network,
                                const gpur_network_config *config, const gpur_obs_format *obs, int32_t math,
                                float policy_floor, int64_t capacity);
void gpur_inference_close(gpur_inference *inference);
void gpur_inference_assign(gpur_inference *inference, gpur_arena *arena);

/* Replaces buffers for fewer than `count` observations by larger ones. GPUR_OUT_OF_MEMORY: they are unchanged. */
gpur_status gpur_inference_reserve(gpur_inference *inference, int64_t count);

/* How random actions are drawn: those of a row are a pure function of the seed, its step and its lane. */
typedef struct gpur_exploration {
    uint64_t seed;
    uint64_t step;         /* of all rows, if `steps` is NULL */
    float epsilon;         /* of all rows, if `epsilons` is NULL; of action vectors: sigma */
    const uint64_t *steps; /* (count) host */
    const uint32_t *lanes; /* (count) host; NULL: the lane of row i is i */
    const float *epsilons; /* (count) host */
} gpur_exploration;

/* One call. */
typedef struct gpur_inference_call {
    int64_t count;
    const void *obs; /* (count, obs) in host or device memory */
    void *native;    /* CUDA, obs in device memory: the stream that writes them; NULL: they are complete */
    gpur_exploration exploration;
    const unsigned char *mask; /* (count, ceil(A / 8)) host: allowed actions (kernels/lib/allowed.h); NULL: all */
    int32_t greedy;            /* of a head that draws: see gpur_policy_input */
    int32_t *actions;          /* (count) host out; NULL: not wanted */
    float *q;                  /* (count, num_actions) host out: as in the buffers; NULL: not wanted */
    float *values; /* (count) host out: V of a SOFTMAX_VALUE head, log pi of drawn vectors; NULL: not wanted */
} gpur_inference_call;

/* Refuses a call of more than `most` observations, named `limit` in the message, bad pointers, epsilons or sigmas out
 * of range, and masks that allow no action or are of action vectors. */
gpur_status gpur_inference_check(const gpur_inference *inference, const gpur_inference_call *call, int64_t most,
                                 const char *limit);

/* Enqueues the copies of the observations, the masks and the rows' exploration to the device, and the conversion of the
 * observations. */
gpur_status gpur_inference_upload(gpur_inference *inference, const gpur_inference_call *call);

/* Enqueues the forward pass and the choice. Reads `weights`, (P) device, only in this work. */
gpur_status gpur_inference_run(const gpur_inference *inference, const gpur_inference_call *call, const float *weights);

/* Copies the results to the caller, if `status`, that of the functions above, is GPUR_OK. Waits in any case, because
 * enqueued work uses the pinned memory and the caller's. Returns the first failure. */
gpur_status gpur_inference_download(gpur_inference *inference, const gpur_inference_call *call, gpur_status status);
