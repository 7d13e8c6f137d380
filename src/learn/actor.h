/* SPDX-License-Identifier: MIT */
/*
 * Acting: a forward pass and an epsilon-greedy choice on a stream of its own, from copies of the weights.
 *
 * There are two acting copies, which launches of training write alternately, each at its end. So the weights after the
 * last enqueued launch and those after the launch before it are both available, and which of them an act reads follows
 * from the order of calls alone. Events make an act wait for the launch that writes its copy, and make the next write
 * of that copy wait for the acts that read it.
 */
#pragma once

#include "learn/network/input.h"
#include "learn/part.h"

#include <pthread.h>
#include <stdatomic.h>

/* Buffers for acts of up to N observations. An act of more observations replaces them by larger ones. */
typedef struct gpur_act_buffers {
    int64_t capacity; /* N */
    gpur_pass pass;
    void *raw;       /* (N, obs) device, contiguous; if the input is direct, the network's input itself */
    float *q;        /* (N, A) */
    int32_t *action; /* (N) */
    void *workspace;
    void *memory; /* device memory of all the above; NULL: it is in the learner's */
    void *pinned;
    int64_t pinned_bytes;
    void *host_obs;       /* pinned: (N, obs) */
    float *host_q;        /* pinned: (N, A) */
    int32_t *host_action; /* pinned: (N) */
} gpur_act_buffers;

typedef struct gpur_actor {
    gpur_device *device;
    const gpur_network *network;
    int32_t mode;           /* GPUR_ACT_* */
    uint64_t seed, counter; /* of the exploration; the counter grows by 1 per act */
    _Atomic int64_t chosen; /* actions */
    gpur_stream *stream;
    pthread_mutex_t act_lock;  /* held during a whole act; protects the stream, the buffers and the counter */
    pthread_mutex_t copy_lock; /* held only while work on an acting copy is enqueued, so training waits for no act */
    int latest;                /* index of the copy that the last enqueued launch writes */
    float *copy[2];            /* (P) weights */
    gpur_event *written[2], *read[2]; /* recorded after the last write and the last read of each copy */
    gpur_input input;
    gpur_pass_options options;
    gpur_act_buffers buffers;     /* protected by `act_lock` */
    _Atomic int64_t pinned_bytes; /* of the buffers */
    _Atomic int64_t grown_bytes;  /* device memory of the buffers, outside the learner's */
} gpur_actor;

/* The learner's part that is a gpur_actor. */
extern const gpur_part gpur_actor_part;

/* Enqueues on `stream`, at the end of a launch, a copy of the weights over the older acting copy, which becomes the
 * latest. */
gpur_status gpur_actor_publish(gpur_actor *actor, gpur_stream *stream, const float *weights);

/* Enqueues on `stream` a copy of `count` weights, from `offset` on, to both acting copies. */
gpur_status gpur_actor_patch(gpur_actor *actor, gpur_stream *stream, const float *weights, int64_t offset,
                             int64_t count);

/* The counter of the random numbers and the number of actions; gpur_actor_choose increases both. */
void gpur_actor_get_counters(gpur_actor *actor, uint64_t *counter, int64_t *chosen);
void gpur_actor_set_counters(gpur_actor *actor, uint64_t counter, int64_t chosen);

/* Observations to act on. */
typedef struct gpur_obs_batch {
    int64_t count;
    const void *obs; /* (count, obs) in host or device memory */
    void *native;    /* CUDA, obs in device memory: the stream that writes them; NULL: they are complete */
} gpur_obs_batch;

/* The results are in host memory when the call returns. Any thread; a mutex serializes the calls. GPUR_OUT_OF_MEMORY:
 * the buffers could not grow, and are unchanged. */
gpur_status gpur_actor_choose(gpur_actor *actor, const gpur_obs_batch *obs_batch, float epsilon, int32_t *actions);
gpur_status gpur_actor_values(gpur_actor *actor, const gpur_obs_batch *obs_batch, float *q);
