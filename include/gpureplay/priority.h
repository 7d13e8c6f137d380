/* SPDX-License-Identifier: MIT */
/*
 * Priorities of a replay made with `prioritized` = 1 [Schaul et al. 2016]: transition i is drawn with probability
 * P(i) = p_i^alpha / sum_k p_k^alpha [eq. 1], and weighs (N P(i))^-beta [section 3.4] in a batch's "weight".
 *
 * A transition's first priority is the one that it brings: a field "priority" of the schema, one float32, plus
 * priority_offset [Horgan et al. 2018, algorithm 1: actors know better than a constant]. Where the schema has no such
 * field, or the value is negative, NaN or infinite (counted), it is the largest priority given before it, or 1 if none
 * was larger [Schaul et al. 2016, algorithm 1, line 6]. Priorities are given by transitions that bring their own, in
 * the order of their ids, and by updates and train steps, which come after all transitions that were published before
 * they were enqueued; evicted transitions count, too. When somebody looks (a draw, statistics, a save) makes no
 * difference. A transition may be drawn as soon as it is visible, and no longer once it is evicted.
 *
 * p^alpha is kept as round(p^alpha 2^20), at least 1 and at most 2^32 - 1, in a tree of integers: sums are exact, and
 * what is 0 is never drawn. A p of 0 is 0 also for alpha = 0; priority_offset keeps p above that. When every
 * visible transition has priority 0, a draw is uniform, and its weights are 1.
 *
 * `prioritized` = 1 is all that has to be set: draws, and the train steps of learners, are then by priority unless
 * their index_source says GPUR_UNIFORM or GPUR_UNIFORM_DISTINCT. An index_source by priority without it is refused.
 *
 * A learner that draws by priority writes |TD error| + priority_offset back
 * in its train step; who trains a network of their own calls gpur_replay_update_priorities.
 */
#ifndef GPUREPLAY_PRIORITY_H
#define GPUREPLAY_PRIORITY_H

#include "gpureplay/replay.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Gives transitions new priorities, `priorities` + priority_offset. Enqueued behind the draws and launches before, and
 * seen by all that come later. Under GPUR_FLUSH_AUTO it first publishes what this thread's earlier calls completed, as
 * a draw does, so that what gpur_replay_get_stats calls visible can be updated; under GPUR_FLUSH_MANUAL it publishes
 * nothing.
 *
 *   ids         (count) int64, as a batch has them; duplicates allowed: of theirs the largest counts, in any order
 *   priorities  (count) float32: how large the TD errors were, say. Both in host memory, which is free when the call
 *               returns, or both in memory of the replay's device
 *   count       0 to max_batch
 *   stream      CUDA, arrays in device memory: the cudaStream_t that made them, which is ordered before the reading and
 *               after it; else NULL. NULL with arrays in device memory: they are ready now, and have been read on
 *               return
 *
 * An id that is not visible when its turn comes is stale: refused and counted, and no error (nor GPUR_EVICTED), since
 * another thread's appends may have overwritten the transition since it was drawn. A priority that is negative, NaN or
 * infinite is refused and counted likewise; the old one stays. One thread at a time draws, trains or updates; others
 * take turns.
 *
 *   GPUR_INVALID_ARGUMENT  count out of range, arrays in different places, a stream on the CPU, a replay that is not
 *                          prioritized, or NULL; nothing is updated
 */
GPUR_API gpur_status gpur_replay_update_priorities(gpur_replay *replay, int64_t count, const int64_t *ids,
                                                   const float *priorities, void *stream);

/*
 * The priorities of the transitions of these ids, as last given, with the offset and without alpha. Waits for them;
 * publishes as a draw does. Any thread; they take turns with those that draw.
 *
 *   ids         (count) in host memory; count 1 to max_batch
 *   priorities  (count) float32, host memory; filled in when the call returns
 *
 *   GPUR_EVICTED           a transition that has been overwritten
 *   GPUR_INVALID_ARGUMENT  an id that is not visible yet, count out of range, a replay that is not prioritized, or NULL
 *   GPUR_TOO_FEW           nothing is visible
 */
GPUR_API gpur_status gpur_replay_get_priorities(gpur_replay *replay, int64_t count, const int64_t *ids,
                                                float *priorities);

/*
 * Sets alpha, and works out p^alpha of all transitions anew from the priorities as given: a pass over all of them. Seen
 * by all draws that come later. Publishes as gpur_replay_update_priorities does. Any thread.
 *
 *   GPUR_INVALID_ARGUMENT  alpha is not 0 to 10, a replay that is not prioritized, or NULL
 */
GPUR_API gpur_status gpur_replay_set_alpha(gpur_replay *replay, float alpha);

/* Sets beta of gpur_replay_sample for all draws that come later, and ends its schedule. Any thread; errors as
 * gpur_replay_set_alpha. */
GPUR_API gpur_status gpur_replay_set_beta(gpur_replay *replay, float beta);

/* What gpur_replay_get_priority_stats tells. */
typedef struct gpur_priority_stats {
    uint64_t size;      /* sizeof(gpur_priority_stats), as the caller was compiled: set it before the call */
    float alpha;        /* of all priorities now */
    float beta;         /* of the next gpur_replay_sample; a learner has its own */
    double total;       /* sum of p^alpha over all visible transitions, as kept: a multiple of 2^-20 */
    float max_priority; /* the largest given so far, or 1: what the next transition gets if it brings none */
    float min_priority; /* the smallest of those that can be drawn; 0 where none can */
    int64_t drawable;   /* transitions with a priority above 0 */
    int64_t updates;    /* priorities given since creation, by updates and train steps */
    int64_t stale;      /* refused: their transitions were not visible */
    int64_t invalid;    /* refused: negative, NaN or infinite; of updates, train steps and rows that brought one */
} gpur_priority_stats;

/* A walk over all priorities behind the work enqueued before, which is waited for: milliseconds for millions. Publishes
 * as gpur_replay_update_priorities does. Any thread. GPUR_INVALID_ARGUMENT: a replay that is not prioritized, NULL, or
 * `stats->size` was not set. */
GPUR_API gpur_status gpur_replay_get_priority_stats(gpur_replay *replay, gpur_priority_stats *stats);

/*
 * Checks the tree: every node is the sum of its children, every leaf what its priority makes it, and nothing has one
 * that is not visible. Costs and publishes as gpur_replay_get_priority_stats. Any
 * thread.
 *
 *   wrong   how many nodes are not so; 0 unless something wrote over the device's memory, or this library is wrong
 *
 *   GPUR_INVALID_ARGUMENT  a replay that is not prioritized, or NULL
 */
GPUR_API gpur_status gpur_replay_check_priorities(gpur_replay *replay, int64_t *wrong);

#ifdef __cplusplus
}
#endif
#endif
