/* SPDX-License-Identifier: MIT */
/* The sum tree of prioritized replay, with integers and 128 children a node. Integer sums are exact and do not drift,
 * and an update changes the levels independently of each other: none waits for another. */
#pragma once

#include "kernels/args_priority.h"
#include "kernels/lib/collective.h"
#include "kernels/lib/lane_flags.h"
#include "kernels/lib/power.h"
#include "kernels/lib/turn.h"

/* Children of a node that one lane reads. */
enum { GPUR_LANE_CHILDREN = GPUR_TREE_FAN / GPUR_WARP };

GPUR_FN uint64_t gpur_tree_total(const gpur_tree *tree)
{
    return tree->sum[tree->levels - 1][0];
}

/* The bits of p. For p from 0 on they have the order of p. */
GPUR_FN uint32_t gpur_priority_to_bits(float p)
{
    uint32_t bits;
    memcpy(&bits, &p, sizeof bits);
    return bits;
}

GPUR_FN float gpur_priority_from_bits(uint32_t bits)
{
    float p;
    memcpy(&p, &bits, sizeof p);
    return p;
}

/* p + offset if that is a priority: p is 0 or more and not NaN, and the sum is finite. Else -1. */
GPUR_FN float gpur_priority_add_offset(float p, float offset)
{
    const float sum = p + offset;
    return p >= 0.0f && sum < INFINITY ? sum : -1.0f;
}

/* What turns a priority into a leaf. */
typedef struct gpur_leaf_scale {
    double unit; /* 2^-octave */
    double one;  /* the leaf of p = 2^octave */
    double alpha;
} gpur_leaf_scale;

/* `octave`: -1000 to 1000 */
GPUR_FN gpur_leaf_scale gpur_leaf_scale_of(const gpur_tree *tree, float alpha, int32_t octave)
{
    gpur_leaf_scale scale;
    scale.unit = gpur_double_of((uint64_t)(1023 - octave) << 52);
    scale.one = tree->evicts ? GPUR_EVICT_LEAF_ONE : GPUR_LEAF_ONE;
    scale.alpha = (double)alpha;
    return scale;
}

GPUR_FN gpur_leaf_scale gpur_tree_scale(const gpur_tree *tree)
{
    return gpur_leaf_scale_of(tree, tree->state->alpha, tree->state->octave);
}

/* (p / 2^octave)^alpha one, before rounding; `one` for p = 0. */
GPUR_FN double gpur_leaf_before_rounding(float p, gpur_leaf_scale scale)
{
    return gpur_power(p > 0.0f ? (double)p * scale.unit : 1.0, scale.alpha) * scale.one;
}

/* The same rounded to the nearest integer and limited to 1 ... 2^32 - 1; 0 for p = 0, whatever alpha is (0^0 is 0
 * here). It has no branches, so loops over it vectorize. */
GPUR_FN uint32_t gpur_leaf_of(float p, gpur_leaf_scale scale)
{
    const double x = gpur_leaf_before_rounding(p, scale);
    const double within = x < 1.0 ? 1.0 : x > 4294967295.0 ? 4294967295.0 : x;
    const uint32_t leaf = (uint32_t)gpur_bits_of(within + 4503599627370496.0); /* 2^52: rounds to an integer */
    return p > 0.0f ? leaf : 0;
}

/* The leaf that follows from the priority in a slot. Of rows with p = 0, p^alpha is infinite where alpha is below 0. */
GPUR_FN uint32_t gpur_tree_leaf(const gpur_tree *tree, int64_t slot, gpur_leaf_scale scale)
{
    const float p = tree->priority[slot];
    return tree->evicts && !(p > 0.0f) && tree->turn[slot] % 2 == 1 ? UINT32_MAX : gpur_leaf_of(p, scale);
}

/* The smallest n with p <= 2^n, for p > 0 given by its bits. */
GPUR_FN int32_t gpur_octave_of(uint32_t bits)
{
    const uint64_t x = gpur_bits_of((double)gpur_priority_from_bits(bits));
    return (int32_t)(x >> 52) - 1023 + ((x & 0xFFFFFFFFFFFFFu) != 0);
}

/* Whether the leaves must be computed anew because the largest priority, given by its bits, has left their scale. */
GPUR_FN int gpur_tree_is_off_scale(const gpur_tree *tree, uint32_t largest)
{
    const gpur_priority_state *const state = tree->state;
    const double drift = (double)(gpur_octave_of(largest) - state->octave) * (double)state->alpha;
    return largest != 0 && (drift > GPUR_LEAF_DRIFT || drift < -GPUR_LEAF_DRIFT);
}

/* Bits of the priority of a row that has none: the largest one [Schaul et al. 2016, algorithm 1, line 6], of the rows
 * that have been settled, or ever given; 1 before the first. */
GPUR_FN uint32_t gpur_tree_first_priority(const gpur_tree *tree)
{
    const gpur_priority_state *const state = tree->state;
    const uint32_t largest = tree->first_ever ? state->ever : state->largest;
    return largest ? largest : gpur_priority_to_bits(1.0f);
}

/* The bounds of the nodes of a level. Those of each level are padded to whole nodes of the next. */
GPUR_FN uint32_t *gpur_tree_bounds(const gpur_tree *tree, int32_t level)
{
    int64_t nodes = tree->capacity, first = 0;
    for (int32_t l = 0; l < level; l++) {
        nodes = (nodes + GPUR_TREE_FAN - 1) >> GPUR_TREE_SHIFT;
        first += (nodes + GPUR_TREE_FAN - 1) / GPUR_TREE_FAN * GPUR_TREE_FAN;
    }
    return tree->bound + first;
}

/* Bits of the largest priority, in a tree that is settled. */
GPUR_FN uint32_t gpur_tree_root_bound(const gpur_tree *tree)
{
    return *gpur_tree_bounds(tree, tree->levels - 1);
}

/* Makes the bounds above a slot at least `bits`. A node that has such a bound has it above, too, or another thread is
 * seeing to that. */
GPUR_FN void gpur_tree_raise(const gpur_tree *tree, int64_t slot, uint32_t bits)
{
    for (int l = 0; l < tree->levels; l++)
        if (gpur_atomic_max_u32(gpur_tree_bounds(tree, l) + (slot >> (l + 1) * GPUR_TREE_SHIFT), bits) >= bits)
            return;
}

/* Whether the row in a slot of the window may be sampled. */
GPUR_FN int gpur_tree_may_have_leaf(const gpur_window *window, int64_t slot)
{
    return !window->lane_flags || (window->lane_flags[slot] & GPUR_LANE_IS_WHOLE) != 0;
}

/* The slot of the row with this id, or -1 if the id is not in the window, or its row may not be sampled. */
GPUR_FN int64_t gpur_tree_slot(const gpur_tree *tree, const gpur_window *window, int64_t id)
{
    const int64_t first_id = window->first_id;
    if (tree->turn)
        return gpur_turn_slot(tree->turn, tree->capacity, id);
    if (id < first_id || id - first_id >= window->count)
        return -1;
    const int64_t after = window->first_slot + (id - first_id);
    const int64_t slot = after < tree->capacity ? after : after - tree->capacity;
    return gpur_tree_may_have_leaf(window, slot) ? slot : -1;
}

/* The id of the row in a slot of the window. For another slot it is an id after the window's last. */
GPUR_FN int64_t gpur_tree_id(const gpur_tree *tree, const gpur_window *window, int64_t slot)
{
    const int64_t offset = slot - window->first_slot;
    if (tree->turn)
        return gpur_turn_id(tree->turn, tree->capacity, slot);
    return window->first_id + (offset < 0 ? offset + tree->capacity : offset);
}

/* The segment, counted over the whole level, that a slot belongs to. */
GPUR_FN int64_t gpur_tree_segment(int64_t slot, int32_t level)
{
    return slot >> (level * GPUR_TREE_SHIFT + GPUR_SEGMENT_SHIFT);
}

/* Whether this level stores segment sums, one for each 16 children. They speed up serial descents only: a warp reads
 * whole nodes, so GPUs do without them. The root has none, since its children are all read. */
GPUR_FN int gpur_tree_has_segments(const gpur_tree *tree, int32_t level)
{
    return !gpur_is_parallel() && level + 1 < tree->levels;
}

/* Adds x to all nodes above a leaf, and to their segments, except for the total. */
GPUR_FN void gpur_tree_add_above(const gpur_tree *tree, int64_t slot, uint64_t x)
{
    for (int l = 0; l + 1 < tree->levels; l++) {
        if (gpur_tree_has_segments(tree, l))
            gpur_atomic_add_u64(&tree->segment[l][gpur_tree_segment(slot, l)], x);
        gpur_atomic_add_u64(&tree->sum[l][slot >> (l + 1) * GPUR_TREE_SHIFT], x);
    }
}

/* Sets the leaf of a slot to what follows from its priority. Returns the change, which the total lacks. Several threads
 * may do so for the same slot: only one of them gets the change. */
GPUR_FN uint64_t gpur_tree_set_leaf(const gpur_tree *tree, int64_t slot)
{
    const uint32_t leaf = gpur_tree_leaf(tree, slot, gpur_tree_scale(tree));
    const uint64_t change = (uint64_t)leaf - (uint64_t)gpur_atomic_exchange_u32(&tree->leaf[slot], leaf);
    if (change)
        gpur_tree_add_above(tree, slot, change);
    return change;
}

/* Adds every thread's x to the total. Every thread must call it. */
GPUR_FN void gpur_tree_add_total(gpur_thread at, const gpur_tree *tree, uint64_t x)
{
    x = gpur_warp_sum_u64(at, x);
    if (gpur_lane(at) == 0 && x != 0)
        gpur_atomic_add_u64(&tree->sum[tree->levels - 1][0], x);
}

/* The sum of a segment's 16 children, computed by a warp, in every lane. */
GPUR_FN uint64_t gpur_tree_segment_sum(gpur_thread at, const gpur_tree *tree, int32_t level, int64_t segment)
{
    const int64_t first = segment * GPUR_TREE_SEGMENT;
    uint64_t sum = 0;
    if (level == 0)
        for (int i = gpur_lane(at); i < GPUR_TREE_SEGMENT; i += GPUR_WARP)
            sum += tree->leaf[first + i];
    else
        for (int i = gpur_lane(at); i < GPUR_TREE_SEGMENT; i += GPUR_WARP)
            sum += tree->sum[level - 1][first + i];
    return gpur_warp_sum_u64(at, sum);
}

/* Minimum over the non-zero leaves below one node, minus 1, computed by a warp. Subtracting 1 turns a leaf of 0 into
 * UINT32_MAX, so it never is the minimum. */
GPUR_FN uint32_t gpur_tree_node_min(gpur_thread at, const gpur_tree *tree, int32_t level, int64_t node)
{
    const int64_t first = node * GPUR_TREE_FAN;
    const uint32_t *const child = (level == 0 ? tree->leaf : tree->min_leaf[level - 1]) + first;
    const uint32_t less = level == 0 ? 1 : 0;
    uint32_t smallest = UINT32_MAX;
    for (int i = gpur_lane(at); i < GPUR_TREE_FAN; i += GPUR_WARP) {
        const uint32_t x = child[i] - less;
        smallest = x < smallest ? x : smallest;
    }
    return gpur_warp_min_u32(at, smallest);
}

/* The bounds of the children of a level's nodes; at level 0 the bits of the priorities. */
GPUR_FN const uint32_t *gpur_tree_child_bounds(const gpur_tree *tree, int32_t level)
{
    return level == 0 ? (const uint32_t *)tree->priority : gpur_tree_bounds(tree, level - 1);
}

/* The largest bound of a node's children, computed by a warp, in every lane. The bound of child `known`
 * is taken to be `bound`; -1: of none. */
GPUR_FN uint32_t gpur_tree_node_max(gpur_thread at, const gpur_tree *tree, int32_t level, int64_t node, int64_t known,
                                    uint32_t bound)
{
    const int64_t first = node * GPUR_TREE_FAN;
    const uint32_t *const child = gpur_tree_child_bounds(tree, level) + first;
    uint32_t largest = known >= 0 ? bound : 0;
    for (int i = gpur_lane(at); i < GPUR_TREE_FAN; i += GPUR_WARP) {
        const uint32_t x = first + i == known ? 0 : child[i];
        largest = x > largest ? x : largest;
    }
    return gpur_warp_max_u32(at, largest);
}
