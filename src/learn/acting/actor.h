/* SPDX-License-Identifier: MIT */
/*
 * Acting by a learner: one inference, and the acting copies of the weights, which launches of training write
 * alternately, each at its end. So the weights after the last enqueued launch and those after the launch before it are
 * both available, and which of them an act reads follows from the order of calls alone.
 */
#pragma once

#include "learn/acting/acting_copies.h"
#include "learn/acting/inference.h"
#include "learn/part.h"

#include <pthread.h>

typedef struct gpur_actor {
    int32_t mode;              /* GPUR_ACT_* */
    uint64_t seed, counter;    /* of the exploration; the counter grows by 1 per act */
    _Atomic int64_t chosen;    /* actions */
    pthread_mutex_t act_lock;  /* held during a whole act; protects the inference and the counter */
    gpur_acting_copies copies; /* one reader: the inference */
    gpur_inference inference;
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

/* Chooses actions, or computes Q values. Of the exploration the caller sets `epsilon`. The results are in host memory
 * when the call returns. Any thread; a mutex serializes the calls. GPUR_OUT_OF_MEMORY: the buffers could not grow, and
 * are unchanged. */
gpur_status gpur_actor_choose(gpur_actor *actor, gpur_inference_call *call);
gpur_status gpur_actor_values(gpur_actor *actor, const gpur_inference_call *call);
