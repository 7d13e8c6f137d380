/* SPDX-License-Identifier: MIT */
/*
 * Prioritized replay [Schaul et al. 2016].
 *
 * In a replay that was created with `prioritized` = 1, every transition i has a priority p_i. Sampling chooses
 * transition i with probability P(i) = p_i^alpha / sum over k of p_k^alpha [eq. 1]. A batch's "weight" is the
 * importance weight (N P(i))^-beta [section 3.4], where N is the number of transitions in the window, divided as the
 * replay's weight_norm says. No other setting is needed: gpur_replay_sample and the train steps of learners sample by
 * priority unless their index_source asks for uniform sampling.
 *
 * The first priority of a transition. If the schema has a field "priority" of one float32, it is that value plus
 * priority_offset [Horgan et al. 2018, algorithm 1]. If the schema has no such field, or if the value is negative, NaN
 * or infinite (which is counted), it is the largest priority given so far [Schaul et al. 2016, algorithm 1, line 6]:
 * the maximum of 1 and of
 *
 *   - the priorities of all transitions with a smaller id, including evicted ones
 *   - the priorities given by updates and train steps that were enqueued before the transition was published (see
 *     GPUR_FLUSH_AUTO and GPUR_FLUSH_MANUAL)
 *
 * Sampling, saving and reading statistics in between do not change it.
 *
 * Later priorities. A learner that samples by priority writes |TD error| + priority_offset back in each train step. A
 * caller that trains its own network calls gpur_replay_update_priorities. A transition can be sampled from its
 * publication until its eviction.
 *
 * Precision. p^alpha is stored as the integer round(p^alpha x 2^20), at least 1 and at most 2^32 - 1, in a tree of
 * integer sums. Sums are therefore exact, and do not depend on the order of updates. A transition with p = 0 is never
 * sampled, even with alpha = 0; priority_offset keeps p above 0. If all transitions in the window have priority 0,
 * sampling is uniform and all weights are 1.
 */
#ifndef GPUREPLAY_PRIORITY_H
#define GPUREPLAY_PRIORITY_H

#include "gpureplay/replay.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Sets new priorities: `priorities` + priority_offset [Schaul et al. 2016, algorithm 1, line 12]. The update is
 * enqueued after all work that was enqueued before, and all later launches see it. The call first publishes what the
 * next launch would see: under GPUR_FLUSH_AUTO the transitions that this thread has appended, under GPUR_FLUSH_MANUAL
 * those of full and of flushed staging blocks. Any thread; updates, sampling and train steps run one at a time, in the
 * order in which they were called.
 *
 *   count       0 to max_batch
 *   ids         (count) int64, as in a batch's "id". If an id occurs twice, the larger priority counts
 *   priorities  (count) float32: the absolute TD errors, for example. `ids` and `priorities` are both in host memory,
 *               and may be changed when the call returns; or both in device memory
 *   stream      CUDA, arrays in device memory: the cudaStream_t that wrote them. The update waits for the work that is
 *               on it now, and later work on it waits for the update. NULL: the arrays are complete now, and have been
 *               read when the call returns. For arrays in host memory, and on the CPU: NULL
 *
 * An id whose transition is not in the window when the update runs is skipped and counted as stale, since other threads
 * may have overwritten the transition; this is not an error, and not GPUR_EVICTED. A priority that is negative, NaN or
 * infinite is skipped and counted as invalid.
 *
 *   GPUR_INVALID_ARGUMENT  count out of range, one array in host and one in device memory, memory of another GPU, a
 *                          stream on the CPU, a stream under capture, a replay that is not prioritized, or NULL;
 *                          nothing is updated
 */
GPUR_API gpur_status gpur_replay_update_priorities(gpur_replay *replay, int64_t count, const int64_t *ids,
                                                   const float *priorities, void *stream);

/*
 * Reads the priorities of transitions, including priority_offset and not raised to alpha. Counts as a launch: it runs
 * after all work enqueued before, waits for that work, and publishes first what a launch would see. Any thread.
 *
 *   count       1 to max_batch
 *   ids         (count) in host memory
 *   priorities  (count) float32 in host memory; filled in when the call returns
 *
 *   GPUR_EVICTED           one of the transitions was overwritten
 *   GPUR_INVALID_ARGUMENT  an id that is not visible yet, count out of range, a replay that is not prioritized, or NULL
 *   GPUR_TOO_FEW           the replay is empty
 */
GPUR_API gpur_status gpur_replay_get_priorities(gpur_replay *replay, int64_t count, const int64_t *ids,
                                                float *priorities);

/*
 * Sets alpha, from 0 to 10, and recomputes p^alpha of all priorities in one pass over the tree on the device. All later
 * launches see it. Publishes first, like gpur_replay_update_priorities. Any thread.
 *
 *   GPUR_INVALID_ARGUMENT  alpha is not 0 to 10, a replay that is not prioritized, or NULL
 */
GPUR_API gpur_status gpur_replay_set_alpha(gpur_replay *replay, float alpha);

/*
 * Sets beta, from 0 to 10, for all later calls of gpur_replay_sample. The schedule of the config then no longer
 * applies. Learners have a beta of their own. Any thread.
 *
 *   GPUR_INVALID_ARGUMENT  beta is not 0 to 10, a replay that is not prioritized, or NULL
 */
GPUR_API gpur_status gpur_replay_set_beta(gpur_replay *replay, float beta);

/* What gpur_replay_get_priority_stats reports. Counts start with the creation of the replay, or continue those of a
 * loaded file. */
typedef struct gpur_priority_stats {
    uint64_t size;      /* sizeof(gpur_priority_stats), as the caller was compiled: set it before the call */
    float alpha;        /* the exponent of all priorities now */
    float beta;         /* the exponent of the weights in the next gpur_replay_sample */
    double total;       /* the sum of p^alpha over the window, as stored: a multiple of 2^-20 */
    float max_priority; /* the largest priority given so far, at least 1: that of the next transition that has no
                           priority of its own */
    float min_priority; /* the smallest priority above 0 in the window; 0 if there is none */
    int64_t nonzero;    /* transitions in the window with a priority above 0 */
    int64_t updates;    /* priorities written by updates and train steps */
    int64_t stale;      /* priorities skipped because their transitions were not in the window */
    int64_t invalid;    /* priorities skipped because they were negative, NaN or infinite: in updates, train steps and
                           appended transitions */
} gpur_priority_stats;

/*
 * Reads the statistics. The call scans all priorities on the device after the work enqueued before, and waits for the
 * result: milliseconds for millions of transitions. Publishes first, like gpur_replay_update_priorities. Any thread.
 *
 *   stats  `size` is set by the caller; the other members are filled in
 *
 *   GPUR_INVALID_ARGUMENT  a replay that is not prioritized, NULL, or `stats->size` was not set
 */
GPUR_API gpur_status gpur_replay_get_priority_stats(gpur_replay *replay, gpur_priority_stats *stats);

/*
 * Checks the tree of priorities: every node is the sum of its children, every leaf follows from its priority, and only
 * transitions in the window have one. Takes as long as gpur_replay_get_priority_stats, and publishes first, too. Any
 * thread.
 *
 *   wrong   receives the number of wrong nodes. If it is not 0, something has overwritten device memory, or the program
 *           has changed the rounding of floating-point numbers (fesetround) between two calls, or this library has a
 *           bug
 *
 *   GPUR_INVALID_ARGUMENT  a replay that is not prioritized, or NULL
 */
GPUR_API gpur_status gpur_replay_check_priorities(gpur_replay *replay, int64_t *wrong);

#ifdef __cplusplus
}
#endif
#endif
