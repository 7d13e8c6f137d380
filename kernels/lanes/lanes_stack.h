/* SPDX-License-Identifier: MIT */
/* Stores the newest frames of a step whose observations are stacks, and says what its stacks are made of:
 * gpur_lanes_stack_args. A warp has a lane. */
#pragma once

#include "kernels/lanes/units.h"
#include "kernels/lib/lane_rows.h"

/* A lane in the step that is added. */
typedef struct gpur_stack_row {
    int64_t step, lane, slot;
} gpur_stack_row;

/* Frame f of a stack that is given. */
GPUR_FN gpur_units gpur_stack_frame(const gpur_lane_stack *s, const unsigned char *stacks, int64_t lane, int f)
{
    gpur_units frame;
    frame.at = stacks + lane * s->pitch + f * s->frame_step;
    frame.step = s->unit_step;
    return frame;
}

/* The place in the ring of the frame `back` steps before this one. */
GPUR_FN unsigned char *gpur_stack_place(const gpur_lane_rings *l, const gpur_lane_stack *s, gpur_stack_row row,
                                        int back)
{
    return s->ring + ((gpur_lanes_frame_slot(l, row.step - back) + row.lane) * s->units << s->shift);
}

/* 1: older frames of the stack differ, for one of the threads of the warp, from those that are stored. `byte` is that
 * of the observation; `ahead` is 1 if that is a final one, of the step after this one. */
GPUR_FN int gpur_stack_differs(gpur_thread at, const gpur_lanes_stack_args *a, gpur_stack_row row, unsigned char byte,
                               int ahead)
{
    const int newest = a->lanes.stack - 1;
    int differs = 0;
    for (int32_t i = 0; i < a->stack_count; i++) {
        const gpur_lane_stack *const s = &a->stacks[i];
        for (int back = 1; back <= newest && !differs; back++) {
            const int found = gpur_stack_back(byte, back) - ahead;
            gpur_units wanted;
            wanted.at = 0, wanted.step = (int64_t)1 << s->shift;
            if (found == 0)
                wanted = gpur_stack_frame(s, s->from, row.lane, newest); /* this step's, which is not stored yet */
            else if (found > 0)
                wanted.at = gpur_stack_place(&a->lanes, s, row, found);
            differs |= gpur_units_differ(at, gpur_stack_frame(s, ahead ? s->finals : s->from, row.lane, newest - back),
                                         wanted, s->units, s->shift);
        }
    }
    return gpur_warp_max_u32(at, (uint32_t)differs) != 0;
}

/* The byte of an observation with which an episode begins. */
GPUR_FN unsigned char gpur_stack_begin(gpur_thread at, const gpur_lanes_stack_args *a, gpur_stack_row row)
{
    if (!gpur_stack_differs(at, a, row, 0, 0))
        return 0;
    return gpur_stack_differs(at, a, row, GPUR_STACK_REPEATS, 0) ? GPUR_STACK_IS_BROKEN : GPUR_STACK_REPEATS;
}

/* The byte of this step's observation. */
GPUR_FN unsigned char gpur_stack_judge(gpur_thread at, const gpur_lanes_stack_args *a, gpur_stack_row row)
{
    const gpur_lane_rings *const l = &a->lanes;
    if (row.step == l->state->oldest)
        return (unsigned char)l->stack;
    const int64_t before = gpur_lanes_slot(l, row.step - 1) + row.lane;
    if ((l->flags[before] & (l->resets_later ? GPUR_LANE_IS_RESET : GPUR_LANE_ENDED)) != 0)
        return gpur_stack_begin(at, a, row);
    const unsigned char byte = gpur_stack_after(l, l->stacks[before]);
    const int is_compared = (byte & GPUR_STACK_AGE) < l->stack || row.step < l->state->compared;
    return is_compared && gpur_stack_differs(at, a, row, byte, 0) ? (unsigned char)(byte | GPUR_STACK_IS_BROKEN) : byte;
}

/* The same byte, with what is to be said of the final observation. */
GPUR_FN unsigned char gpur_stack_judge_final(gpur_thread at, const gpur_lanes_stack_args *a, gpur_stack_row row,
                                             unsigned char byte)
{
    const gpur_lane_rings *const l = &a->lanes;
    const int has_final = a->stacks[0].finals && gpur_lanes_ends(a->terminated, a->truncated, row.lane);
    if (!has_final || (byte & GPUR_STACK_IS_BROKEN) != 0)
        return byte;
    const unsigned char after = gpur_stack_after(l, byte);
    const int is_early = row.step < l->state->compared && row.step != l->state->oldest; /* whose frames come later */
    const int is_compared = (after & GPUR_STACK_AGE) < l->stack || is_early;
    return is_compared && gpur_stack_differs(at, a, row, after, 1) ? (unsigned char)(byte | GPUR_STACK_FINAL_BROKEN)
                                                                   : byte;
}

/* Stores the newest frames, or all of them in the first step that is there. */
GPUR_FN void gpur_stack_store(gpur_thread at, const gpur_lanes_stack_args *a, gpur_stack_row row)
{
    const int count = row.step == a->lanes.state->oldest ? a->lanes.stack : 1;
    for (int32_t i = 0; i < a->stack_count; i++) {
        const gpur_lane_stack *const s = &a->stacks[i];
        for (int back = 0; back < count; back++) {
            const gpur_units from = gpur_stack_frame(s, s->from, row.lane, a->lanes.stack - 1 - back);
            gpur_copy_units(at, gpur_stack_place(&a->lanes, s, row, back), from.at, from.step, s->units, s->shift);
        }
    }
}

GPUR_KERNEL_OF(lanes_stack, 256)
{
    gpur_lanes_state *const state = a->lanes.state;
    const gpur_span lanes = gpur_warp_rows(at, a->lanes.lanes);
    for (int64_t lane = lanes.first; lane < lanes.last; lane += lanes.step) {
        gpur_stack_row row;
        unsigned char byte;
        row.step = state->steps, row.lane = lane, row.slot = gpur_lanes_slot(&a->lanes, row.step) + lane;
        byte = gpur_stack_judge(at, a, row);
        byte = gpur_stack_judge_final(at, a, row, byte);
        gpur_stack_store(at, a, row);
        if (gpur_lane(at) != 0)
            continue;
        a->lanes.stacks[row.slot] = byte;
        if ((byte & (GPUR_STACK_IS_BROKEN | GPUR_STACK_FINAL_BROKEN)) != 0)
            gpur_atomic_add_u64((uint64_t *)&state->broken_stacks, 1);
    }
}
