/* SPDX-License-Identifier: MIT */
/* Adds a step of all lanes: gpur_lanes_add_args. A block has a contiguous share of the lanes, which it judges as many
 * at a time as it has threads. Final observations are numbered in the order of the lanes. */
#pragma once

#include "kernels/lib/clip.h"
#include "kernels/lib/lane_rows.h"
#include "kernels/lib/collective.h"
#include "kernels/priority/tree.h"
#include "kernels/lanes/units.h"
#include "kernels/replay/field_copy.h"

/* What an add changes, of one thread. */
typedef struct gpur_lanes_change {
    uint64_t whole; /* modulo 2^64 */
    uint64_t total; /* of the tree, modulo 2^64 */
    int64_t without_final, lost_finals;
} gpur_lanes_change;

/* `slot` is the row's. */
GPUR_FN int gpur_lanes_comes_with_final(const gpur_lanes_add_args *a, int64_t slot, int64_t lane)
{
    return a->final_count > 0 && gpur_lanes_ends(a->terminated, a->truncated, lane) &&
           !gpur_stack_is(&a->lanes, slot, GPUR_STACK_IS_BROKEN | GPUR_STACK_FINAL_BROKEN);
}

/* Sets the flags of a row whose flags were `before`; a row that is whole has a leaf. */
GPUR_FN void gpur_lanes_set_flags(const gpur_lanes_add_args *a, int64_t slot, unsigned char before, unsigned char flags,
                                  gpur_lanes_change *change)
{
    const int was_whole = (before & GPUR_LANE_IS_WHOLE) != 0, is_whole = (flags & GPUR_LANE_IS_WHOLE) != 0;
    a->lanes.flags[slot] = flags;
    change->whole += (uint64_t)(int64_t)(is_whole - was_whole);
    if (!a->tree.leaf || !(is_whole || was_whole))
        return;
    a->tree.priority[slot] = is_whole ? gpur_priority_from_bits(gpur_tree_first_priority(&a->tree)) : 0.0f;
    change->total += gpur_tree_set_leaf(&a->tree, slot);
    if (is_whole)
        gpur_tree_raise(&a->tree, slot, gpur_priority_to_bits(a->tree.priority[slot]));
}

/* The row before this step's, whose next observation has come, unless it ended and was given its final one then.
 * Returns its flags; before the first step that is there all environments were reset. */
GPUR_FN unsigned char gpur_lanes_finish_row(const gpur_lanes_add_args *a, int64_t step, int64_t lane,
                                            gpur_lanes_change *change)
{
    const gpur_lane_rings *const l = &a->lanes;
    if (step == l->state->oldest)
        return l->resets_later ? GPUR_LANE_IS_RESET : GPUR_LANE_ENDED;
    const int64_t slot = gpur_lanes_slot(l, step - 1) + lane;
    const unsigned char flags = l->flags[slot];
    const int is_due = (flags & GPUR_LANE_IS_RESET) == 0 && (l->resets_later || (flags & GPUR_LANE_ENDED) == 0);
    const int is_broken = gpur_stack_is(l, slot, GPUR_STACK_IS_BROKEN) ||
                          gpur_stack_is(l, gpur_lanes_slot(l, step) + lane, GPUR_STACK_IS_BROKEN);
    if (is_due && !is_broken)
        gpur_lanes_set_flags(a, slot, flags, (unsigned char)(flags | GPUR_LANE_IS_WHOLE), change);
    return flags;
}

/* The flags of this step's row, which has this slot. */
GPUR_FN unsigned char gpur_lanes_judge(const gpur_lanes_add_args *a, int64_t slot, int64_t lane, unsigned char before,
                                       gpur_lanes_change *change)
{
    const int terminated = a->terminated[lane] != 0, truncated = a->truncated && a->truncated[lane] != 0;
    const int resets = a->lanes.resets_later ? GPUR_LANE_IS_RESET : GPUR_LANE_ENDED;
    int flags = (terminated ? GPUR_LANE_TERMINATED : 0) | (truncated ? GPUR_LANE_TRUNCATED : 0);
    flags |= (before & resets) != 0 ? GPUR_LANE_BEGINS : 0;
    if (a->lanes.resets_later)
        return (unsigned char)((before & GPUR_LANE_ENDED) != 0 ? GPUR_LANE_IS_RESET : flags);
    if (gpur_lanes_comes_with_final(a, slot, lane))
        flags |= GPUR_LANE_HAS_FINAL | GPUR_LANE_IS_WHOLE;
    else if (gpur_stack_is(&a->lanes, slot, GPUR_STACK_IS_BROKEN | GPUR_STACK_FINAL_BROKEN))
        return (unsigned char)flags;
    else if (terminated)
        flags |= GPUR_LANE_IS_WHOLE;
    else if (truncated)
        change->without_final++;
    return (unsigned char)flags;
}

/* Takes the slot of final observation number `number` for a row of this step. F is at least 2 N, so the row that had it
 * is two steps older or more. It stops being whole. */
GPUR_FN void gpur_lanes_take_final(const gpur_lanes_add_args *a, int64_t step, int64_t lane, int64_t number,
                                   gpur_lanes_change *change)
{
    const gpur_lane_rings *const l = &a->lanes;
    const int64_t at = number % l->finals, owner = l->owner[at];
    if (number >= l->finals && owner >= gpur_lanes_first(l, step + 1) * l->lanes) {
        const int64_t slot = gpur_lanes_slot(l, owner / l->lanes) + owner % l->lanes;
        const unsigned char flags = l->flags[slot];
        change->lost_finals++;
        gpur_lanes_set_flags(a, slot, flags, (unsigned char)(flags & (GPUR_LANE_ENDED | GPUR_LANE_BEGINS)), change);
    }
    l->owner[at] = step * l->lanes + lane;
    l->final[gpur_lanes_slot(l, step) + lane] = (uint32_t)at;
}

/* Judges one lane. `number`: of its final observation; -1: it has none. */
GPUR_FN void gpur_lanes_add_lane(const gpur_lanes_add_args *a, int64_t step, int64_t lane, int64_t number,
                                 gpur_lanes_change *change)
{
    const gpur_lane_rings *const l = &a->lanes;
    const int64_t slot = gpur_lanes_slot(l, step) + lane;
    const float reward = a->reward[lane], clip = a->reward_clip;
    const unsigned char overwritten = step >= l->steps ? l->flags[slot] : 0;
    const unsigned char before = gpur_lanes_finish_row(a, step, lane, change);
    l->reward[slot] = clip > 0.0f ? gpur_clip(reward, clip) : reward; /* NaN stays what it is */
    gpur_lanes_set_flags(a, slot, overwritten, gpur_lanes_judge(a, slot, lane, before, change), change);
    if (number >= 0)
        gpur_lanes_take_final(a, step, lane, number, change);
}

/* Copies `count` final observations of this thread's warp, one after the other: that of lane i of the warp has number
 * `number`, or -1. */
GPUR_FN void gpur_lanes_copy_finals(gpur_thread at, const gpur_lanes_add_args *a, int64_t lane, int64_t number)
{
    for (int i = 0; i < GPUR_WARP; i++) {
        const int64_t from = (int64_t)gpur_warp_get_u64(at, (uint64_t)lane, i);
        const int64_t which = (int64_t)gpur_warp_get_u64(at, (uint64_t)number, i);
        for (int32_t f = 0; which >= 0 && f < a->final_count; f++) {
            const gpur_lane_final *const field = &a->finals[f];
            unsigned char *const to = field->ring + (which % a->lanes.finals * field->units << field->shift);
            gpur_copy_units(at, to, field->from + from * field->pitch, field->unit_step, field->units, field->shift);
        }
    }
}

/* Final observations of the lanes before `last`, counted by the whole block. */
GPUR_FN uint64_t gpur_lanes_count_finals(gpur_thread at, const gpur_lanes_add_args *a, int64_t slot, int64_t last)
{
    uint64_t count = 0;
    for (int64_t lane = at.thread; lane < last; lane += at.threads)
        count += gpur_lanes_comes_with_final(a, slot + lane, lane) ? 1 : 0;
    return gpur_block_sum_u64(at, count);
}

/* This block's lanes. Returns what they change. */
GPUR_FN gpur_lanes_change gpur_lanes_add_rows(gpur_thread at, const gpur_lanes_add_args *a, int64_t step)
{
    const gpur_span lanes = gpur_share_of(a->lanes.lanes, at.block, at.blocks);
    const int64_t slot = gpur_lanes_slot(&a->lanes, step);
    uint64_t numbered = (uint64_t)a->lanes.state->finals;
    gpur_lanes_change change = {0, 0, 0, 0};
    if (a->final_count > 0 && !a->lanes.resets_later)
        numbered += gpur_lanes_count_finals(at, a, slot, lanes.first);
    for (int64_t first = lanes.first; first < lanes.last; first += at.threads) {
        const int64_t lane = first + at.thread;
        const int is_mine = lane < lanes.last;
        const int has_final = is_mine && !a->lanes.resets_later && gpur_lanes_comes_with_final(a, slot + lane, lane);
        uint64_t total = 0;
        const uint64_t before = gpur_block_prefix_u64(at, (uint64_t)has_final, &total);
        const int64_t number = has_final ? (int64_t)(numbered + before) - 1 : -1;
        if (is_mine)
            gpur_lanes_add_lane(a, step, lane, number, &change);
        if (total > 0)
            gpur_lanes_copy_finals(at, a, lane, number);
        numbered += total;
    }
    if (at.block == at.blocks - 1 && at.thread == 0)
        a->lanes.state->step_finals = (int64_t)numbered - a->lanes.state->finals;
    return change;
}

/* The widest unit, as a shift, for which all of x are multiples. */
GPUR_FN int32_t gpur_lanes_shift(uint64_t x)
{
    return (x & 15) == 0 ? 4 : (x & 7) == 0 ? 3 : (x & 3) == 0 ? 2 : (x & 1) == 0 ? 1 : 0;
}

/* A field of all lanes is contiguous on both sides. */
GPUR_FN void gpur_lanes_copy_field(gpur_thread at, const gpur_lane_field *field, int64_t slot, int64_t lanes)
{
    const int64_t bytes = lanes * field->bytes;
    unsigned char *const to = field->ring + slot * field->bytes;
    const int32_t shift =
        gpur_lanes_shift((uint64_t)(uintptr_t)to | (uint64_t)(uintptr_t)field->from | (uint64_t)bytes);
    const gpur_span units = gpur_grid_span(at, bytes >> shift);
    if (!gpur_is_parallel()) {
        if (units.first < units.last)
            memcpy(to + (units.first << shift), field->from + (units.first << shift),
                   (size_t)(units.last - units.first) << shift);
        return;
    }
    for (int64_t u = units.first; u < units.last; u += units.step)
        gpur_store_unit(to + (u << shift), gpur_load_unit(field->from + (u << shift), shift), shift);
}

GPUR_KERNEL_OF(lanes_add, 256) /* whose threads need more registers than those of larger blocks have */
{
    gpur_lanes_state *const state = a->lanes.state;
    const int64_t step = state->steps, slot = gpur_lanes_slot(&a->lanes, step);
    const gpur_lanes_change change = gpur_lanes_add_rows(at, a, step);
    if (change.whole != 0)
        gpur_atomic_add_u64(&state->step_whole, change.whole);
    if (change.without_final != 0)
        gpur_atomic_add_u64((uint64_t *)&state->without_final, (uint64_t)change.without_final);
    if (change.lost_finals != 0)
        gpur_atomic_add_u64((uint64_t *)&state->lost_finals, (uint64_t)change.lost_finals);
    if (a->tree.leaf)
        gpur_tree_add_total(at, &a->tree, change.total);
    for (int32_t f = 0; f < a->field_count; f++)
        gpur_lanes_copy_field(at, &a->fields[f], slot, a->lanes.lanes);
}
