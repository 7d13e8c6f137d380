/* SPDX-License-Identifier: MIT */
/* Computes the memory that a replay needs, in bytes, before anything is allocated. */
#pragma once

#include "device/device.h"
#include "gpureplay/plan.h"
#include "replay/storage/layout.h"

enum { GPUR_WINDOW_BYTES = 256 }; /* of the window's own allocation, one granule */

/* `checked` and `schema` come from gpur_replay_config_check. */
gpur_replay_plan gpur_plan(const gpur_replay_config *checked, const gpur_schema *schema,
                           const gpur_ring_layout *layout);

/* Refuses a plan that needs more memory than the device has free. The message has the largest capacity that fits or, if
 * none fits, what takes how many bytes. */
gpur_status gpur_plan_check_fits(const gpur_replay_plan *plan, const gpur_replay_config *checked,
                                 const gpur_schema *schema, gpur_device *device);
