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
int32_t gpur_replay_links(const gpur_replay *replay);                /* frame links of one row; 0: GPUR_LAYOUT_ROWS */
