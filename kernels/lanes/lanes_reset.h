/* SPDX-License-Identifier: MIT */
/* Leaves out the newest steps of lanes that the caller has reset: gpur_lanes_reset_args. */
#pragma once

#include "kernels/lib/lane_rows.h"

/* The flags of a newest row whose next observation will not come, since its lane was reset. One that has ended its
 * episode, or reset its environment, is followed by a new episode anyway. */
GPUR_FN unsigned char gpur_lanes_cut(const gpur_lane_rings *l, unsigned char flags)
{
    if (l->resets_later)
        return (unsigned char)((flags & GPUR_LANE_BEGINS) | GPUR_LANE_IS_RESET);
    return (unsigned char)((flags & GPUR_LANE_ENDED) != 0 ? flags : flags | GPUR_LANE_TRUNCATED);
}

GPUR_KERNEL(lanes_reset)
{
    const gpur_lane_rings *const l = &a->lanes;
    const gpur_span lanes = gpur_grid_span(at, l->lanes);
    uint64_t left_out = 0;
    if (l->state->steps == l->state->oldest)
        return;
    for (int64_t lane = lanes.first; lane < lanes.last; lane += lanes.step) {
        const int64_t slot = gpur_lanes_slot(l, l->state->steps - 1) + lane;
        const unsigned char flags = l->flags[slot], cut = gpur_lanes_cut(l, flags);
        if ((a->which && !a->which[lane]) || cut == flags)
            continue;
        l->flags[slot] = cut;
        left_out += gpur_stack_is(l, slot, GPUR_STACK_IS_BROKEN) ? 0 : 1; /* which was left out before */
    }
    if (left_out > 0)
        gpur_atomic_add_u64((uint64_t *)&l->state->without_final, left_out);
}
