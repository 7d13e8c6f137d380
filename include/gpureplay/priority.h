/* SPDX-License-Identifier: MIT */
/*
 * Prioritized replay [Schaul et al. 2016].
 *
 * In a replay that was created with `prioritized` = 1, every transition i has a priority p_i. A draw takes transition i
 * with probability P(i) = p_i^alpha / sum over k of p_k^alpha [eq. 1], and a batch's "weight" has its importance weight
 * (N P(i))^-beta [section 3.4], where N is the number of visible transitions, divided as the replay's weight_norm says.
 * Nothing else has to be set: draws of the replay and train steps of its learners are by priority unless their
 * index_source asks for a uniform draw.
 *
 * The first priority of a transition. If the schema has a field "priority" of one float32, it is that value plus
 * priority_offset [Horgan et al. 2018, algorithm 1]. If the schema has none, or the value is negative, NaN or infinite
 * (which is counted), it is the largest priority given so far, and at least 1 [Schaul et al. 2016, algorithm
 * 1, line 6]: the largest of
 *   - the priorities of all transitions with a smaller id, also of those that have been evicted
 *   - the priorities given by updates and train steps that were enqueued before the transition was published (see
 *     GPUR_FLUSH_AUTO and GPUR_FLUSH_MANUAL)
 * Draws, saves and requests for statistics in between do not change it.
 *
 * Later priorities. A learner that draws by priority writes |TD error| + priority_offset back in each train step. Who
 * trains a network of their own calls gpur_replay_update_priorities. A transition can be drawn as soon as it is
 * visible, and not any more once it is evicted.
 *
 * Precision. p^alpha is kept as the integer round(p^alpha x 2^20), at least 1 and at most 2^32 - 1, in a tree of
 * integer sums. Sums are therefore exact, and do not depend on the order of updates. A transition with p = 0 is never
 * drawn, also with alpha = 0; priority_offset keeps p above 0. If all visible transitions have priority 0, draws are
 * uniform and all weights are 1.
 */
#ifndef GPUREPLAY_PRIORITY_H
#define GPUREPLAY_PRIORITY_H

#include "gpureplay/replay.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Gives transitions new priorities: `priorities` + priority_offset. The update is enqueued after the draws and train
 * steps that were enqueued before; all later ones see it. The call first publishes what a draw in its place would
 * publish: under GPUR_FLUSH_AUTO the transitions that this thread has appended, under GPUR_FLUSH_MANUAL those of full
 * and of flushed staging blocks. Any thread; draws, train steps and updates take turns.
 *
 *   ids         (count) int64, as in a batch's "id". If an id is given twice, the larger priority counts
 *   priorities  (count) float32: the absolute TD errors, for example. `ids` and `priorities` both lie in host memory,
 *               and may be changed when the call returns, or both in device memory
 *   count       0 to max_batch
 *   stream      CUDA, arrays in device memory: the cudaStream_t that wrote them. The update waits for it, and it waits
 *               for the update. NULL: the arrays are complete now, and have been read when the call returns. For arrays
 *               in host memory, and on the CPU: NULL
 *
 * A transition that is not visible when the update runs is skipped and counted as stale, since other threads may have
 * overwritten it in the meantime; this is no error, and not GPUR_EVICTED. A priority that is negative, NaN or infinite
 * is skipped and counted as invalid.
 *
 *   GPUR_INVALID_ARGUMENT  count out of range, one array in host and one in device memory, a stream on the CPU, a
 *                          replay that is not prioritized, or NULL; nothing is updated
 */
GPUR_API gpur_status gpur_replay_update_priorities(gpur_replay *replay, int64_t count, const int64_t *ids,
                                                   const float *priorities, void *stream);

/*
 * Reads the priorities of transitions: with priority_offset, and not raised to alpha. Waits for the updates and train
 * steps enqueued before. Publishes as a draw does. Any thread; takes its turn with those that draw.
 *
 *   ids         (count) in host memory
 *   priorities  (count) float32 in host memory; filled in when the call returns
 *   count       1 to max_batch
 *
 *   GPUR_EVICTED           a transition that has been overwritten
 *   GPUR_INVALID_ARGUMENT  an id that is not visible yet, count out of range, a replay that is not prioritized, or NULL
 *   GPUR_TOO_FEW           the replay is empty
 */
GPUR_API gpur_status gpur_replay_get_priorities(gpur_replay *replay, int64_t count, const int64_t *ids,
                                                float *priorities);

/*
 * Sets alpha. All p^alpha are computed anew from the priorities: one pass over the whole tree on the device. All later
 * draws see it. Publishes as gpur_replay_update_priorities does. Any thread.
 *
 *   GPUR_INVALID_ARGUMENT  alpha is not 0 to 10, a replay that is not prioritized, or NULL
 */
GPUR_API gpur_status gpur_replay_set_alpha(gpur_replay *replay, float alpha);

/*
 * Sets beta for all later draws of gpur_replay_sample. It ends the schedule of the config. Learners have a beta of
 * their own. Any thread.
 *
 *   GPUR_INVALID_ARGUMENT  beta is not 0 to 10, a replay that is not prioritized, or NULL
 */
GPUR_API gpur_status gpur_replay_set_beta(gpur_replay *replay, float beta);

/* What gpur_replay_get_priority_stats reports. Counts are since creation, and go on from a loaded file's. */
typedef struct gpur_priority_stats {
    uint64_t size;      /* sizeof(gpur_priority_stats), as the caller was compiled: set it before the call */
    float alpha;        /* the exponent of all priorities now */
    float beta;         /* the exponent of the weights in the next gpur_replay_sample */
    double total;       /* the sum of p^alpha over all visible transitions, as kept: a multiple of 2^-20 */
    float max_priority; /* the largest priority given so far, or 1: that of the next transition if it brings none */
    float min_priority; /* the smallest priority of a transition that can be drawn; 0 if there is none */
    int64_t drawable;   /* visible transitions with a priority above 0 */
    int64_t updates;    /* priorities written by updates and train steps */
    int64_t stale;      /* priorities skipped since their transitions were not visible */
    int64_t invalid;    /* priorities skipped since they were negative, NaN or infinite: in updates, train steps and
                           appended transitions */
} gpur_priority_stats;

/*
 * Walks over all priorities on the device, after the work enqueued before, and waits for that: milliseconds for
 * millions of transitions. Publishes as gpur_replay_update_priorities does. Any thread.
 *
 *   GPUR_INVALID_ARGUMENT  a replay that is not prioritized, NULL, or `stats->size` was not set
 */
GPUR_API gpur_status gpur_replay_get_priority_stats(gpur_replay *replay, gpur_priority_stats *stats);

/*
 * Checks the tree of priorities: every node is the sum of its children, every leaf is what its priority makes it, and
 * only visible transitions have one. Costs and publishes as gpur_replay_get_priority_stats. Any thread.
 *
 *   wrong   gets the number of wrong nodes. Other than 0 means that something overwrote device memory, or a bug in this
 *           library
 *
 *   GPUR_INVALID_ARGUMENT  a replay that is not prioritized, or NULL
 */
GPUR_API gpur_status gpur_replay_check_priorities(gpur_replay *replay, int64_t *wrong);

#ifdef __cplusplus
}
#endif
#endif
