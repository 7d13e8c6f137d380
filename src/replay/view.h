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

/* From now on all actions that come from host memory must have numbers of -1 to 1. GPUR_INVALID_ARGUMENT: one that the
 * replay has is another. Publishes what was appended. */
gpur_status gpur_replay_limit_actions(gpur_replay *replay);
int32_t gpur_replay_links(const gpur_replay *replay); /* frame links of one row; 0: GPUR_LAYOUT_ROWS */
