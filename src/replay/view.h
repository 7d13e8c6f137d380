/* SPDX-License-Identifier: MIT */
/* What a learner, which does not see the members of a replay, reads of it. The results are valid as long as the replay
 * exists. */
#pragma once

#include "device/device.h"
#include "gpureplay/replay.h"
#include "replay/lanes/lanes.h"
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

/* The actions that a learner trains on: 0 to `actions` - 1, or if that is GPUR_UNIT_ACTIONS numbers of -1 to 1. It is a
 * member of the learner, and the replay has a list of them. */
enum { GPUR_UNIT_ACTIONS = -1 };
typedef struct gpur_action_limit {
    int32_t actions; /* 0: it is in no list */
    struct gpur_action_limit *next;
} gpur_action_limit;

/* Actions from host memory must be such from now on, until gpur_replay_free_actions is called with `limit`, which must
 * be all zeros here. Of several learners the one with the fewest counts. GPUR_INVALID_ARGUMENT: with GPUR_UNIT_ACTIONS
 * the replay has others; nothing is limited then. This publishes what was appended. */
gpur_status gpur_replay_limit_actions(gpur_replay *replay, gpur_action_limit *limit, int32_t actions);

/* Ends this limit. A limit that is in no list is left as it is. */
void gpur_replay_free_actions(gpur_replay *replay, gpur_action_limit *limit);

/* The largest of the stored actions, which must be one int32 or int64 each; -1: there are none, or rows were evicted by
 * priority. GPUR_INVALID_ARGUMENT: one is negative. */
gpur_status gpur_replay_find_largest_action(gpur_replay *replay, int64_t *largest);

int32_t gpur_replay_links(const gpur_replay *replay); /* frame links of one row; 0: GPUR_LAYOUT_ROWS */

/* 1: samples of the replay get new goals (gpureplay/hindsight.h). */
int gpur_replay_has_hindsight(const gpur_replay *replay);

/* The storage of a replay of GPUR_LAYOUT_LANES; NULL: it is of another layout. */
const gpur_lane_store *gpur_replay_lanes(const gpur_replay *replay);

/* Refuses a replay of GPUR_LAYOUT_LANES for a call that it does not have. */
gpur_status gpur_replay_refuse_lanes(const gpur_replay *replay, const char *call);
