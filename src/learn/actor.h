/* SPDX-License-Identifier: MIT */
/*
 * Acting: a forward pass and an epsilon-greedy choice on a stream of its own, from copies of the weights.
 *
 * There are two copies. A launch of training writes one at its end, the next launch the other. So the copy "after the
 * last launch enqueued" and the copy "after the launch before" are both there, and which of them an act reads follows
 * from the order of calls alone. Events order an act behind the launch that writes its copy, and the copy's next
 * overwriting behind the acts that read it.
 */
#ifndef GPUR_LEARN_ACTOR_H
#define GPUR_LEARN_ACTOR_H

#include "learn/network/input.h"

#include <pthread.h>
#include <stdatomic.h>

/* What an act of up to `most` observations needs. It grows with the first act that needs more. */
typedef struct gpur_act_buffers {
    int64_t most;
    gpur_pass pass;
    void *raw;       /* (most, obs) on the device, without gaps; sheet 0 where the input is direct */
    float *q;        /* (most, A) */
    int32_t *action; /* (most) */
    void *workspace;
    void *memory; /* device memory of all these; NULL: part of the learner's */
    void *pinned;
    int64_t pinned_bytes;
    void *host_obs;       /* pinned: (most, obs) */
    float *host_q;        /* pinned: (most, A) */
    int32_t *host_action; /* pinned: (most) */
} gpur_act_buffers;

typedef struct gpur_actor {
    gpur_device *device;
    const gpur_network *network;
    int32_t mode;           /* GPUR_ACT_* */
    uint64_t seed, counter; /* of the exploration; one act, one count */
    _Atomic int64_t chosen;
    gpur_stream *stream;
    pthread_mutex_t turn;  /* held through a whole act: of the stream, the sheets, the pinned memory, the counter */
    pthread_mutex_t mutex; /* held while enqueuing what touches a copy: training never waits for an act */
    int has_turn, has_mutex;
    int latest;     /* copy written by the last launch enqueued */
    float *copy[2]; /* (P) weights */
    gpur_event *written[2], *read[2];
    gpur_input input;
    gpur_pass_options options;
    gpur_act_buffers buffers;      /* under `turn` */
    _Atomic int64_t pinned_bytes; /* of the buffers */
    _Atomic int64_t grown_bytes;  /* device memory of the buffers, beside the learner's */
} gpur_actor;

/* A failure leaves what gpur_actor_close takes. */
gpur_status gpur_actor_open(gpur_actor *actor, gpur_device *device, const gpur_network *network,
                            const gpur_learn_fields *fields, const gpur_learner_config *config);
void gpur_actor_close(gpur_actor *actor);
void gpur_actor_place(gpur_actor *actor, gpur_arena *arena);

/* Enqueues on `stream`, at the end of a launch: the older copy becomes the latest. */
gpur_status gpur_actor_publish(gpur_actor *actor, gpur_stream *stream, const float *weights);

/* Enqueues on `stream`: `count` weights from `offset` on, in both copies. */
gpur_status gpur_actor_patch(gpur_actor *actor, gpur_stream *stream, const float *weights, int64_t offset,
                             int64_t count);

/* The random numbers' place and the count of actions, which any act moves on. */
void gpur_actor_get_counters(gpur_actor *actor, uint64_t *counter, int64_t *chosen);
void gpur_actor_set_counters(gpur_actor *actor, uint64_t counter, int64_t chosen);

/* What to act on. */
typedef struct gpur_sight {
    int64_t count;
    const void *obs; /* (count, obs) on either side */
    void *native;     /* CUDA, obs on the device: the stream that made them; NULL: they are ready */
} gpur_sight;

/* Results are in host memory when the call returns. Any number of threads; they take turns. GPUR_OUT_OF_MEMORY: the
 * buffers could not grow, and are as before. */
gpur_status gpur_actor_choose(gpur_actor *actor, const gpur_sight *sight, float epsilon, int32_t *actions);
gpur_status gpur_actor_values(gpur_actor *actor, const gpur_sight *sight, float *q);

#endif
