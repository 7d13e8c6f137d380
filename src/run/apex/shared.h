/* SPDX-License-Identifier: MIT */
/*
 * What the learner and its actors share in memory: the newest weights, and what each actor has done by its own count,
 * which is there when the actor is not any more. The memory is a file without a name: it is gone with the last process
 * that has it, however that ends. Nobody waits for anybody.
 *
 * There are two buffers for weights, which broadcasts use in turn. A reader copies the newest, and copies again if its
 * buffer was written meanwhile [a sequence lock: Boehm 2012]. For that two broadcasts must happen during one copy. A
 * third buffer has the weights of an evaluation.
 */
#pragma once

#include "run/apex/policies.h"
#include "base/status.h"
#include "gpureplay/apex.h"

#include <stdatomic.h>
#include <stddef.h>

/* The actors of a run by their numbers, and the evaluator. */
enum { GPUR_APEX_SLOTS = GPUR_APEX_MAX_ACTORS + 1 };

/* Counters of one actor. `steps` and `blocks` restart with each incarnation; the others do not. */
typedef struct gpur_actor_counts {
    _Alignas(64) _Atomic int64_t steps; /* of the environment. Each begins a transition */
    _Atomic int64_t blocks;             /* made */
    _Atomic int64_t pulls;              /* copies of weights taken */
    _Atomic int64_t nanoseconds;        /* that it has lived; and of these in parts: */
    _Atomic int64_t env_nanoseconds, infer_nanoseconds, wait_nanoseconds;
    /* Of the evaluator: the number of the evaluation that it is to play (0: none). Then its settings and progress. */
    _Atomic int64_t evaluation;
    _Atomic int64_t eval_episodes;
    _Atomic int64_t eval_episode; /* 1 more than have ended */
    _Atomic int32_t eval_is_greedy;
    _Atomic int32_t is_asked;    /* 1: it is to end */
    _Atomic int32_t has_refused; /* 1: it ended since a number of its environment is not finite */
} gpur_actor_counts;

typedef struct gpur_shared {
    int fd; /* -1: none */
    void *memory;
    size_t bytes;
    int64_t weights_bytes;
} gpur_shared;

/* Makes the memory, with all counts 0 and no weights. After a failure call gpur_shared_close. */
gpur_status gpur_shared_create(gpur_shared *shared, int64_t weights_bytes);

/* Maps the memory that another process has made. Takes over the descriptor, also if the call fails. */
gpur_status gpur_shared_map(gpur_shared *shared, int fd, int64_t weights_bytes);
void gpur_shared_close(gpur_shared *shared);

gpur_actor_counts *gpur_shared_counts(const gpur_shared *shared, int32_t actor);

/* Gives actors (weights_bytes) of weights. One thread at a time. */
void gpur_shared_broadcast(const gpur_shared *shared, const void *weights);

/* The weights of the evaluation that is to be played: the first (bytes) of the policies' weights, those of the acting
 * one. They are set before the number of the evaluation. */
void gpur_shared_set_evaluated(const gpur_shared *shared, const void *weights, int64_t bytes);
void gpur_shared_read_evaluated(const gpur_shared *shared, void *weights, int64_t bytes);

/* How often weights were broadcast. */
int64_t gpur_shared_broadcasts(const gpur_shared *shared);

/* Copies the newest weights, of which there must be some, and returns the number of their broadcast: 1, 2, ... */
int64_t gpur_shared_read(const gpur_shared *shared, void *weights);

/* Gives policies the newest weights, of which there must be some, if they are newer than those of broadcast *pulled,
 * which becomes theirs; *is_newer becomes 1. `weights`: memory for them. GPUR_INVALID_ARGUMENT: they are of another
 * network. */
gpur_status gpur_shared_pull(const gpur_shared *shared, gpur_actor_policies *policies, unsigned char *weights,
                             int64_t *pulled, int *is_newer);
