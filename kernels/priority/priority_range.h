/* SPDX-License-Identifier: MIT */
/* Gives leaves to rows that enter the window and takes them from rows that leave it: the three modes of
 * gpur_priority_range_args. A row without a priority of its own gets the largest so far [Schaul et al. 2016,
 * algorithm 1]. A block handles a node of 128 leaves at a time, a warp a segment of 16. */
#ifndef GPUR_KERNELS_PRIORITY_PRIORITY_RANGE_H
#define GPUR_KERNELS_PRIORITY_PRIORITY_RANGE_H

#include "kernels/priority/tree.h"

/* One thread's counters, and the default for rows without a valid priority: the largest priority so far, and its
 * leaf. */
typedef struct gpur_range_tally {
    float most;
    uint32_t most_leaf;
    uint64_t invalid;
    uint32_t most_of_rows;
} gpur_range_tally;

/* Returns the priority stored in the row of this slot, and its leaf; or the default, if the row has no valid
 * priority. */
GPUR_FN float gpur_range_priority(const gpur_priority_range_args *a, int64_t slot, gpur_range_tally *tally,
                                  uint32_t *leaf)
{
    float p = -1.0f;
    *leaf = tally->most_leaf;
    if (a->priority_offset < 0)
        return tally->most;
    memcpy(&p, a->ring + slot * a->pitch + a->priority_offset, sizeof p);
    p = gpur_priority_with(p, a->offset);
    if (p < 0.0f) {
        tally->invalid++;
        return tally->most;
    }
    const uint32_t bits = gpur_priority_bits(p);
    tally->most_of_rows = bits > tally->most_of_rows ? bits : tally->most_of_rows;
    *leaf = gpur_leaf_of(p, a->tree.state->alpha);
    return p;
}

/* Sets this lane's slots of one segment. Returns the change of the sum of the warp's slots. */
GPUR_FN uint64_t gpur_range_slots(gpur_place at, const gpur_priority_range_args *a, int64_t first, int64_t last,
                                  gpur_range_tally *tally)
{
    uint64_t change = 0;
    for (int64_t slot = first + gpur_lane(at); slot < last; slot += GPUR_WARP) {
        uint32_t leaf = 0;
        const float p = a->enter ? gpur_range_priority(a, slot, tally, &leaf) : 0.0f;
        change += (uint64_t)leaf - (uint64_t)a->tree.leaf[slot];
        a->tree.leaf[slot] = leaf;
        a->tree.raw[slot] = p;
    }
    return gpur_warp_sum_u64(at, change);
}

/* Sets the segments of one node that are this warp's. Returns the change of their sum. */
GPUR_FN uint64_t gpur_range_parts(gpur_place at, const gpur_priority_range_args *a, int64_t node,
                                  gpur_range_tally *tally)
{
    const int64_t last = a->first_slot + a->rows;
    uint64_t all = 0;
    for (int p = at.thread / GPUR_WARP; p < GPUR_NODE_PARTS; p += at.threads / GPUR_WARP) {
        const int64_t part = node * GPUR_NODE_PARTS + p, begin = part * GPUR_TREE_PART, end = begin + GPUR_TREE_PART;
        const uint64_t change = gpur_range_slots(at, a, begin < a->first_slot ? a->first_slot : begin,
                                                 end < last ? end : last, tally);
        if (change != 0 && gpur_lane(at) == 0 && gpur_tree_has_parts(&a->tree, 0))
            gpur_atomic_add_u64(&a->tree.part[0][part], change);
        all += change;
    }
    return all;
}

/* Lane 0 adds the change of its warp's leaves of one node to all sums above them. */
GPUR_FN void gpur_range_add(gpur_place at, const gpur_tree *tree, int64_t node, uint64_t change)
{
    const int64_t slot = node * GPUR_TREE_FAN;
    if (gpur_lane(at) != 0 || change == 0)
        return;
    for (int l = 0; l < tree->levels; l++)
        gpur_atomic_add_u64(&tree->sum[l][slot >> (l + 1) * GPUR_TREE_SHIFT], change);
    for (int l = 1; gpur_tree_has_parts(tree, l); l++)
        gpur_atomic_add_u64(&tree->part[l][gpur_tree_part(slot, l)], change);
}

/* Gives the slot another priority. Returns the change of its leaf. */
GPUR_FN uint64_t gpur_range_replace(const gpur_tree *tree, int64_t slot, uint32_t bits)
{
    const float p = gpur_priority_of(bits);
    const uint32_t leaf = gpur_leaf_of(p, tree->state->alpha);
    const uint64_t change = (uint64_t)leaf - (uint64_t)tree->leaf[slot];
    tree->leaf[slot] = leaf;
    tree->raw[slot] = p;
    if (change)
        gpur_tree_add_above(tree, slot, change);
    return change;
}

/* Gives each row without a valid priority of its own the largest priority given before it, in the order of the rows;
 * `before` is the largest before the first row. One warp does it, with a lane for each row. It runs only if a
 * publication has such rows and also a priority larger than all earlier ones. */
GPUR_FN void gpur_range_fill(gpur_place at, const gpur_priority_range_args *a, uint32_t before)
{
    const gpur_tree *const tree = &a->tree;
    uint64_t change = 0;
    for (int64_t first = 0; first < a->rows; first += GPUR_WARP) {
        const int64_t n = first + gpur_lane(at), at_slot = a->first_slot + n;
        const int64_t slot = at_slot < tree->capacity ? at_slot : at_slot - tree->capacity;
        float p = 0.0f;
        if (n < a->rows)
            memcpy(&p, a->ring + slot * a->pitch + a->priority_offset, sizeof p);
        p = gpur_priority_with(p, a->offset);
        const uint32_t most = gpur_warp_prefix_max_u32(at, p < 0.0f || n >= a->rows ? 0 : gpur_priority_bits(p));
        const uint32_t earlier = gpur_warp_get_u32(at, most, gpur_lane(at) > 0 ? gpur_lane(at) - 1 : 0);
        const uint32_t bits = gpur_lane(at) > 0 && earlier > before ? earlier : before;
        if (p < 0.0f && n < a->rows)
            change += gpur_range_replace(tree, slot, bits);
        const uint32_t last = gpur_warp_get_u32(at, most, GPUR_WARP - 1);
        before = last > before ? last : before;
    }
    gpur_tree_add_total(at, tree, change);
}

/* Commits the maximum. The first warp of the first block does it. */
GPUR_FN void gpur_range_settle(gpur_place at, const gpur_priority_range_args *a)
{
    gpur_priority_state *const state = a->tree.state;
    if (at.block != 0 || at.thread >= GPUR_WARP)
        return;
    const uint32_t most = gpur_warp_get_u32(at, state->most, 0); /* all lanes read it before lane 0 changes it */
    const uint32_t most_of_rows = gpur_warp_get_u32(at, state->most_of_rows, 0);
    const uint32_t lacking = gpur_warp_get_u32(at, state->lacking, 0);
    if (most_of_rows > most && lacking)
        gpur_range_fill(at, a, most);
    if (at.thread != 0)
        return;
    state->most = most_of_rows > most ? most_of_rows : most;
    state->lacking = 0;
}

/* Inserts or evicts rows: a block takes a node of 128 leaves at a time. */
GPUR_FN void gpur_range_set(gpur_place at, const gpur_priority_range_args *a)
{
    gpur_priority_state *const state = a->tree.state;
    const int64_t first = a->first_slot, last = first + a->rows, first_node = first >> GPUR_TREE_SHIFT;
    const gpur_span nodes = gpur_block_rows(at, ((last - 1) >> GPUR_TREE_SHIFT) - first_node + 1);
    gpur_range_tally tally;
    if (a->window && at.block == 0 && at.thread == 0)
        *a->window = a->next;
    tally.most = gpur_priority_of(state->most);
    tally.most_leaf = gpur_leaf_of(tally.most, state->alpha);
    tally.invalid = 0, tally.most_of_rows = 0;
    for (int64_t n = nodes.first; n < nodes.last; n += nodes.step) {
        const uint64_t change = gpur_range_parts(at, a, first_node + n, &tally);
        gpur_range_add(at, &a->tree, first_node + n, change);
    }
    if (tally.invalid) {
        gpur_atomic_add_u64((uint64_t *)&state->invalid, tally.invalid);
        gpur_atomic_max_u32(&state->lacking, 1);
    }
    if (tally.most_of_rows)
        gpur_atomic_max_u32(&state->most_of_rows, tally.most_of_rows);
}

GPUR_KERNEL(priority_range)
{
    if (a->settle)
        gpur_range_settle(at, a);
    else if (a->rows > 0)
        gpur_range_set(at, a);
}

#endif
