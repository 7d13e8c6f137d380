/* SPDX-License-Identifier: MIT */
/* Changes stored transitions: rewards of a new model, corrected labels, recurrent states that were computed again. */
#ifndef GPUREPLAY_WRITE_FIELD_H
#define GPUREPLAY_WRITE_FIELD_H

#include "gpureplay/replay.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Writes new values of one field of transitions. The write is enqueued after all work that was enqueued before, and all
 * later launches see it; batches that were filled before stay as they are. It publishes first, like
 * gpur_replay_update_priorities. Any thread; writes, updates, sampling and train steps run one at a time, in the order
 * in which they were called.
 *
 *   field   its index in the schema. Refused are `previous` and `priority` (gpur_replay_update_priorities sets
 *           priorities); `terminated` and `discount` where the schema has both, since they must agree; and with
 *           GPUR_LAYOUT_FRAMES obs and next_obs, whose frames transitions share
 *   count   0 to max_batch
 *   ids     (count) int64, as in a batch's "id". If an id occurs twice, its last value counts
 *   values  (count, ...) of the field's type and shape. `ids` and `values` are both in host memory, and may be changed
 *           when the call returns, for which it waits unless the CPU works inline; or both in device memory. On the CPU
 *           all arrays are in host memory. A reward is clipped as the replay's reward_clip says
 *   stream  CUDA, arrays in device memory: as for gpur_replay_update_priorities. NULL otherwise
 *
 * An id whose transition is not in the window when the write runs is skipped, since other threads may have overwritten
 * the transition, and in a prioritized replay counted as stale (gpur_priority_stats). So is -1, with which batches mark
 * that there is no row. Any other id in host memory must be that of a transition that is or was visible. Arrays in
 * device memory cannot be looked at without waiting: there every other id is skipped, too, and values are not searched.
 *
 *   GPUR_INVALID_ARGUMENT  a field that is refused, or a replay of GPUR_LAYOUT_LANES; in host memory, a number that is
 *                          not finite (check_finite), an action that a learner of the replay cannot train on, or an id
 *                          below -1 or one that no visible transition has had; count or field out of range, one array
 *                          in host and one in device memory, memory of another GPU, a stream on the CPU, a stream under
 *                          capture, or NULL; nothing is written
 *   GPUR_OUT_OF_MEMORY     CUDA, arrays in host memory: there is no memory for their copy on the device
 *
 *     const int64_t ids[2] = {1000, 1001};
 *     const float rewards[2] = {0.5f, -0.25f};
 *     gpur_replay_write_field(replay, 2, 2, ids, rewards, NULL); // where field 2 of the schema is the reward
 */
GPUR_API gpur_status gpur_replay_write_field(gpur_replay *replay, int32_t field, int64_t count, const int64_t *ids,
                                             const void *values, void *stream);

#ifdef __cplusplus
}
#endif
#endif
