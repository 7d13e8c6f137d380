/* SPDX-License-Identifier: MIT */
/* What happened to actors, in the order in which it did: episodes, starts and ends. All functions are called under the
 * lock of the run. */
#pragma once

#include "run/apex/actor.h"
#include "run/apex/handle.h"

void gpur_apex_add_episode(gpur_slot *slot, const gpur_actor_episode *episode);
void gpur_apex_add_started(gpur_slot *slot);
void gpur_apex_add_ended(gpur_slot *slot, int64_t steps, int64_t lost_blocks, int64_t lost_rows, int32_t asked,
                         const char *error);

void gpur_recent_add(gpur_recent *recent, double value);
double gpur_recent_median(const gpur_recent *recent); /* NaN if there are none */
