/* SPDX-License-Identifier: MIT */
/* Rows of lanes by id and slot: kernels/args_lanes.h. */
#pragma once

#include "kernels/args_lanes.h"
#include "kernels/target/thread.h"

/* 1: a lane's episode ends. `truncated` NULL: none was truncated. */
GPUR_FN int gpur_lanes_ends(const unsigned char *terminated, const unsigned char *truncated, int64_t lane)
{
    return terminated[lane] != 0 || (truncated && truncated[lane] != 0);
}

/* The first of the N slots of a step. */
GPUR_FN int64_t gpur_lanes_slot(const gpur_lane_rings *l, int64_t step)
{
    return step % l->steps * l->lanes;
}

/* The number of the oldest step that the ring has room for, when `steps` have been added. */
GPUR_FN int64_t gpur_lanes_first(const gpur_lane_rings *l, int64_t steps)
{
    return steps > l->steps ? steps - l->steps : 0;
}

/* The number of the oldest step that is kept. In the slots of steps before it no row is whole. */
GPUR_FN int64_t gpur_lanes_oldest(const gpur_lane_rings *l, int64_t steps)
{
    const int64_t first = gpur_lanes_first(l, steps), oldest = l->state->oldest;
    return first > oldest ? first : oldest;
}

/* The slot of row number `row` of the window. */
GPUR_FN int64_t gpur_lanes_row_slot(const gpur_lane_rings *l, const gpur_window *window, int64_t row)
{
    const int64_t slot = window->first_slot + row, end = l->steps * l->lanes;
    return slot < end ? slot : slot - end;
}

/* The slot of the row with this id, or -1 if it is not whole. */
GPUR_FN int64_t gpur_lanes_find(const gpur_lane_rings *l, const gpur_window *window, int64_t id)
{
    const int64_t row = id - window->first_id;
    if (id < 0 || row < 0 || row >= window->count)
        return -1;
    const int64_t slot = gpur_lanes_row_slot(l, window, row);
    return (l->flags[slot] & GPUR_LANE_IS_WHOLE) != 0 ? slot : -1;
}

/* The slot of the same lane `by` steps later. */
GPUR_FN int64_t gpur_lanes_later(const gpur_lane_rings *l, int64_t slot, int64_t by)
{
    const int64_t later = slot + by * l->lanes, end = l->steps * l->lanes;
    return later < end ? later : later - end;
}

GPUR_FN unsigned char gpur_lanes_flags(const gpur_lane_rings *l, int64_t id)
{
    return l->flags[gpur_lanes_slot(l, id / l->lanes) + id % l->lanes];
}

/* What the field `previous` would say of a row (kernels/lib/previous.h). The row before may not be whole: one that
 * reset its environment is passed over, if the row before that one has ended its episode; any other one was reset by
 * the caller, has ended its episode, or has a broken stack. */
GPUR_FN int64_t gpur_lanes_previous(const gpur_lane_rings *l, int64_t id)
{
    const int is_first = (gpur_lanes_flags(l, id) & GPUR_LANE_BEGINS) != 0;
    const int64_t last = id - 2 * l->lanes;
    const int passes = is_first && l->resets_later && last >= 0 && (gpur_lanes_flags(l, last) & GPUR_LANE_ENDED) != 0;
    const int64_t before = id - (passes ? 2 : 1) * l->lanes;
    return is_first && before >= 0 ? -2 - before : before < 0 ? -1 : before;
}

/* Frames of stacks. */

/* Slots of a ring of frames. */
GPUR_FN int64_t gpur_lanes_frame_slots(const gpur_lane_rings *l)
{
    return (l->steps + l->stack - 1) * l->lanes;
}

/* The slot of the frame of a step, of lane 0; also of K - 1 steps before the first. */
GPUR_FN int64_t gpur_lanes_frame_slot(const gpur_lane_rings *l, int64_t step)
{
    return (step + l->stack - 1) % (l->steps + l->stack - 1) * l->lanes;
}

/* The byte of an observation that comes after one with this byte in its episode. */
GPUR_FN unsigned char gpur_stack_after(const gpur_lane_rings *l, unsigned char stack)
{
    const int age = stack & GPUR_STACK_AGE;
    return (unsigned char)((age < l->stack ? age + 1 : age) | (stack & GPUR_STACK_REPEATS));
}

/* How far back the frame lies that stands for the one `back` steps before an observation; -1: zeros do. */
GPUR_FN int gpur_stack_back(unsigned char stack, int back)
{
    const int age = stack & GPUR_STACK_AGE;
    return back <= age ? back : (stack & GPUR_STACK_REPEATS) != 0 ? age : -1;
}

GPUR_FN int gpur_stack_is(const gpur_lane_rings *l, int64_t slot, int bits)
{
    return l->stacks && (l->stacks[slot] & bits) != 0;
}
