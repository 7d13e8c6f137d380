/* SPDX-License-Identifier: MIT */
/* What a learner, which does not see the members of a replay, reads of it. The results are valid as long as the replay
 * exists. */
#pragma once

#include "device/device.h"
#include "gpureplay/replay.h"
#include "replay/priority/sum_tree.h"
#include "replay/schema.h"

gpur_device *gpur_replay_device(gpur_replay *replay);
const gpur_schema *gpur_replay_schema(gpur_replay *replay);
const gpur_replay_config *gpur_replay_settings(gpur_replay *replay); /* as checked; `fields` is NULL */
const gpur_priorities *gpur_replay_priorities(gpur_replay *replay);  /* its `device` is NULL without priorities */

/* The rows of the ring, as kernels read them. */
typedef struct gpur_stored_rows {
    const gpur_window *window;
    const unsigned char *ring; /* (capacity) rows, `pitch` bytes apart */
    int64_t pitch, capacity;
} gpur_stored_rows;
gpur_stored_rows gpur_replay_stored_rows(const gpur_replay *replay);
int32_t gpur_replay_stored_offset(const gpur_replay *replay, const char *field); /* in bytes, from the start of a row;
                                                                                    -1: there is no such field */

/* From now on actions that come from host memory must be such as a learner of this replay trains on: 0 to `actions`
 * - 1, or if that is GPUR_UNIT_ACTIONS numbers of -1 to 1. Of several learners the one with the fewest counts.
 * GPUR_INVALID_ARGUMENT: with GPUR_UNIT_ACTIONS the replay has others. This publishes what was appended. */
enum { GPUR_UNIT_ACTIONS = -1 };
gpur_status gpur_replay_limit_actions(gpur_replay *replay, int32_t actions);

/* A learner that had this limit is gone. */
void gpur_replay_free_actions(gpur_replay *replay, int32_t actions);
int32_t gpur_replay_links(const gpur_replay *replay); /* frame links of one row; 0: GPUR_LAYOUT_ROWS */

/* Refuses a replay of GPUR_LAYOUT_LANES for a call that it does not have. */
gpur_status gpur_replay_refuse_lanes(const gpur_replay *replay, const char *call);
