/* SPDX-License-Identifier: MIT */
/* Ends an add or a draw: gpur_lanes_advance_args. */
#pragma once

#include "kernels/lib/lane_rows.h"

GPUR_KERNEL(lanes_advance)
{
    gpur_lanes_state *const state = a->lanes.state;
    if (at.block != 0 || at.thread != 0)
        return;
    if (a->is_draw) {
        state->draws++;
        return;
    }
    state->steps++;
    state->finals += state->step_finals;
    state->whole += (int64_t)state->step_whole;
    state->step_finals = 0;
    state->step_whole = 0;
    const int64_t first = gpur_lanes_oldest(&a->lanes, state->steps);
    a->lanes.window->first_id = first * a->lanes.lanes;
    a->lanes.window->first_slot = gpur_lanes_slot(&a->lanes, first);
    a->lanes.window->count = (state->steps - first) * a->lanes.lanes;
    a->lanes.window->lane_flags = a->lanes.flags;
}
