/* SPDX-License-Identifier: MIT */
/* What happened in a run, in the order in which it did: episodes, evaluations, starts and ends of actors. All functions
 * are called under the lock of the run, except where a comment says otherwise. */
#pragma once

#include "run/apex/actor.h"
#include "run/apex/handle.h"

void gpur_apex_add_episode(gpur_slot *slot, const gpur_actor_episode *episode);
void gpur_apex_add_started(gpur_slot *slot);
void gpur_apex_add_ended(gpur_slot *slot, int64_t steps, int64_t lost_blocks, int64_t lost_rows, int32_t asked,
                         const char *error);

/* Begins an evaluation; one that is being played is cut off. With 0 only that. */
void gpur_apex_ask_to_evaluate(gpur_apex *apex, int is_wanted);

/* Calls on_event for all events. Without the lock, in the thread that advances. */
void gpur_apex_deliver_events(gpur_apex *apex);

void gpur_recent_add(gpur_recent *recent, double value);
double gpur_recent_median(const gpur_recent *recent); /* NaN if there are none */
