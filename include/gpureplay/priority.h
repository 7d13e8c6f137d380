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
 * priority_offset [Horgan et al. 2018, algorithm 1]. NaN there means that the transition is given none; blocks and
 * files may have -1 in its place, as earlier versions wrote it. A transition without a priority gets the largest one in
 * the window, as the launch finds it that is the first to see the transition (with GPUR_EVICT_BY_PRIORITY, an upload
 * before it that needs room): the maximum
 *
 *   - over the transitions that this launch sees and that earlier launches saw, with what updates and train steps have
 *     given them that were enqueued before
 *   - and over the transitions with a smaller id that this launch is also the first to see
 *
 * Transitions that have left do not count. If there are none of them, or all have priority 0, it is 1. So it depends on
 * which calls publish (GPUR_FLUSH_AUTO, GPUR_FLUSH_MANUAL), also on those that only read statistics, and on nothing
 * else. [Schaul et al. 2016, algorithm 1, line 6] has the largest priority ever given, which
 * gpur_replay_config.first_priority = GPUR_FIRST_PRIORITY_EVER chooses: the maximum of 1 and of all priorities of
 * transitions with a smaller id, evicted ones included, and of all updates that were enqueued before the transition was
 * published. Sampling, saving and reading statistics in between do not change that one.
 *
 * Later priorities. A learner that samples by priority writes |TD error| + priority_offset back in each train step. A
 * caller that trains its own network calls gpur_replay_update_priorities. A transition can be sampled from its
 * publication until its eviction.
 *
 * Numbers that are no priorities. Arrays in host memory, in rows, blocks and updates, are refused if a priority is
 * negative or infinite, or in an update NaN. Arrays in device memory cannot be looked at without waiting: there an
 * update takes the absolute value, and skips and counts what is NaN or infinite; and a row with a negative or infinite
 * priority counts as one without, and is counted as invalid.
 *
 * Precision. Only the ratios of priorities matter. p^alpha is stored as an integer of 32 bits, in a tree of integer
 * sums. Sums are therefore exact, and do not depend on the order of updates. All leaves have one scale, a power of two
 * to the power of alpha, under which that of the largest priority in the window is 2^20 or more (for alpha up to 1);
 * when this priority leaves it, the device computes all leaves anew, in one pass. So priorities are drawn within a
 * millionth of the largest p^alpha, whatever their unit is. A p^alpha of less than half of the smallest step counts as
 * one step: gpur_priority_stats.raised has the number of such transitions. A transition with p = 0 is never sampled,
 * even with alpha = 0; priority_offset keeps p above 0. If all transitions in the window have priority 0, sampling is
 * uniform and all weights are 1.
 */
#ifndef GPUREPLAY_PRIORITY_H
#define GPUREPLAY_PRIORITY_H

#include "gpureplay/replay.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Sets new priorities: |priorities| + priority_offset [Schaul et al. 2016, algorithm 1, line 12]. The update is
 * enqueued after all work that was enqueued before, and all later launches see it. The call first publishes what the
 * next launch would see: under GPUR_FLUSH_AUTO the transitions that this thread has appended, under GPUR_FLUSH_MANUAL
 * those of full and of flushed staging blocks. Any thread; updates, sampling and train steps run one at a time, in the
 * order in which they were called.
 *
 *   count       0 to max_batch
 *   ids         (count) int64, as in a batch's "id". If an id occurs twice, the larger priority counts
 *   priorities  (count) float32: the absolute TD errors, for example. `ids` and `priorities` are both in host memory,
 *               and may be changed when the call returns; or both in device memory. On the CPU all arrays are in host
 *               memory
 *   stream      CUDA, arrays in device memory: the cudaStream_t that wrote them. The update waits for the work that is
 *               on it now, and later work on it waits for the update. NULL: the arrays are complete now, and have been
 *               read when the call returns. For arrays in host memory, and on the CPU: NULL
 *
 * An id whose transition is not in the window when the update runs is skipped and counted as stale, since other threads
 * may have overwritten the transition; this is not an error, and not GPUR_EVICTED. So is -1, with which batches mark
 * that there is no row. Any other id in host memory must be that of a transition that is or was visible. Arrays in
 * device memory cannot be looked at without waiting: there every id that is not in the window is skipped and counted as
 * stale, and a priority that is NaN or infinite is skipped and counted as invalid.
 *
 *   GPUR_INVALID_ARGUMENT  in host memory, a priority that is negative, NaN or infinite, or an id below -1 or one that
 *                          no visible transition has had; count out of range, one array in host and one in device
 *                          memory, memory of another GPU, a stream on the CPU, a stream under capture, a replay that
 *                          is not prioritized, or NULL; nothing is updated
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
    double total;       /* the sum of p^alpha over the window, as stored */
    float max_priority; /* that of the next transition that has no priority of its own: the largest one in the window,
                           or 1 if there is none above 0; with GPUR_FIRST_PRIORITY_EVER the largest ever given, at least
                           1 */
    float min_priority; /* the smallest priority above 0 in the window; 0 if there is none */
    int64_t nonzero;    /* transitions in the window with a priority above 0 */
    int64_t updates;    /* priorities written by updates and train steps */
    int64_t stale;      /* priorities skipped because their transitions were not in the window */
    int64_t invalid;    /* priorities skipped because they were NaN or infinite: in updates from device memory and in
                           train steps; and those of appended transitions that were negative or infinite */
    int64_t raised;     /* transitions in the window whose p^alpha is less than half of the smallest step, and which are
                           sampled as if it were one step */
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
 *
 *     int64_t wrong;
 *     gpur_replay_check_priorities(replay, &wrong);
 *     assert(wrong == 0);
 */
GPUR_API gpur_status gpur_replay_check_priorities(gpur_replay *replay, int64_t *wrong);

#ifdef __cplusplus
}
#endif
#endif
