/* SPDX-License-Identifier: MIT */
/* Gives leaves to rows that enter the window and takes them from rows that leave it: the three modes of
 * gpur_priority_insert_evict_args. A row without a priority of its own gets the largest so far [Schaul et al. 2016,
 * algorithm 1]. A block handles a node of 128 leaves at a time, a warp a segment of 16. */
#pragma once

#include "kernels/priority/tree.h"

/* One thread's counters, and the default for rows without a valid priority: the largest priority so far, and its
 * leaf. */
typedef struct gpur_insert_evict_counters {
    float max_priority;
    uint32_t max_leaf;
    uint64_t invalid;
    uint32_t pending_max;
} gpur_insert_evict_counters;

/* Returns the priority stored in the row of this slot, and its leaf; or the default, if the row has no valid
 * priority. */
GPUR_FN float gpur_insert_priority(const gpur_priority_insert_evict_args *a, int64_t slot,
                                   gpur_insert_evict_counters *counters, uint32_t *leaf)
{
    float p = -1.0f;
    *leaf = counters->max_leaf;
    if (a->field_offset < 0)
        return counters->max_priority;
    memcpy(&p, a->ring + slot * a->pitch + a->field_offset, sizeof p);
    p = gpur_priority_add_offset(p, a->offset);
    if (p < 0.0f) {
        counters->invalid++;
        return counters->max_priority;
    }
    const uint32_t bits = gpur_priority_to_bits(p);
    counters->pending_max = bits > counters->pending_max ? bits : counters->pending_max;
    *leaf = gpur_leaf_of(p, a->tree.state->alpha);
    return p;
}

/* Sets this lane's slots of one segment. Returns the change of the sum of the warp's slots. */
GPUR_FN uint64_t gpur_insert_evict_slots(gpur_thread at, const gpur_priority_insert_evict_args *a, int64_t first,
                                         int64_t last, gpur_insert_evict_counters *counters)
{
    uint64_t change = 0;
    for (int64_t slot = first + gpur_lane(at); slot < last; slot += GPUR_WARP) {
        uint32_t leaf = 0;
        const float p = a->insert ? gpur_insert_priority(a, slot, counters, &leaf) : 0.0f;
        change += (uint64_t)leaf - (uint64_t)a->tree.leaf[slot];
        a->tree.leaf[slot] = leaf;
        a->tree.priority[slot] = p;
    }
    return gpur_warp_sum_u64(at, change);
}

/* Sets the segments of one node that are this warp's. Returns the change of their sum. */
GPUR_FN uint64_t gpur_insert_evict_segments(gpur_thread at, const gpur_priority_insert_evict_args *a, int64_t node,
                                            gpur_insert_evict_counters *counters)
{
    const int64_t last = a->first_slot + a->rows;
    uint64_t all = 0;
    for (int p = at.thread / GPUR_WARP; p < GPUR_NODE_SEGMENTS; p += at.threads / GPUR_WARP) {
        const int64_t segment = node * GPUR_NODE_SEGMENTS + p, begin = segment * GPUR_TREE_SEGMENT,
                      end = begin + GPUR_TREE_SEGMENT;
        const uint64_t change = gpur_insert_evict_slots(at, a, begin < a->first_slot ? a->first_slot : begin,
                                                        end < last ? end : last, counters);
        if (change != 0 && gpur_lane(at) == 0 && gpur_tree_has_segments(&a->tree, 0))
            gpur_atomic_add_u64(&a->tree.segment[0][segment], change);
        all += change;
    }
    return all;
}

/* Lane 0 adds the change of its warp's leaves of one node to all sums above them. */
GPUR_FN void gpur_insert_evict_add(gpur_thread at, const gpur_tree *tree, int64_t node, uint64_t change)
{
    const int64_t slot = node * GPUR_TREE_FAN;
    if (gpur_lane(at) != 0 || change == 0)
        return;
    for (int l = 0; l < tree->levels; l++)
        gpur_atomic_add_u64(&tree->sum[l][slot >> (l + 1) * GPUR_TREE_SHIFT], change);
    for (int l = 1; gpur_tree_has_segments(tree, l); l++)
        gpur_atomic_add_u64(&tree->segment[l][gpur_tree_segment(slot, l)], change);
}

/* Gives the slot another priority. Returns the change of its leaf. */
GPUR_FN uint64_t gpur_fold_max_replace(const gpur_tree *tree, int64_t slot, uint32_t bits)
{
    const float p = gpur_priority_from_bits(bits);
    const uint32_t leaf = gpur_leaf_of(p, tree->state->alpha);
    const uint64_t change = (uint64_t)leaf - (uint64_t)tree->leaf[slot];
    tree->leaf[slot] = leaf;
    tree->priority[slot] = p;
    if (change)
        gpur_tree_add_above(tree, slot, change);
    return change;
}

/* Gives each row without a valid priority of its own the largest priority given before it, in the order of the rows;
 * `before` is the largest before the first row. One warp does it, with a lane for each row. It runs only if a
 * publication has such rows and also a priority larger than all earlier ones. */
GPUR_FN void gpur_fold_max_fill(gpur_thread at, const gpur_priority_insert_evict_args *a, uint32_t before)
{
    const gpur_tree *const tree = &a->tree;
    uint64_t change = 0, evict_change = 0;
    for (int64_t first = 0; first < a->rows; first += GPUR_WARP) {
        const int64_t n = first + gpur_lane(at), at_slot = a->first_slot + n;
        const int64_t place = at_slot < tree->capacity ? at_slot : at_slot - tree->capacity;
        const int64_t slot = a->slots && n < a->rows ? a->slots[place] : place;
        float p = 0.0f;
        if (n < a->rows)
            memcpy(&p, a->ring + slot * a->pitch + a->field_offset, sizeof p);
        p = gpur_priority_add_offset(p, a->offset);
        const uint32_t largest = gpur_warp_prefix_max_u32(at, p < 0.0f || n >= a->rows ? 0 : gpur_priority_to_bits(p));
        const uint32_t earlier = gpur_warp_get_u32(at, largest, gpur_lane(at) > 0 ? gpur_lane(at) - 1 : 0);
        const uint32_t bits = gpur_lane(at) > 0 && earlier > before ? earlier : before;
        if (p < 0.0f && n < a->rows) {
            change += gpur_fold_max_replace(tree, slot, bits);
            evict_change += a->slots ? gpur_tree_set_leaf(&a->evict, slot) : 0;
        }
        const uint32_t last = gpur_warp_get_u32(at, largest, GPUR_WARP - 1);
        before = last > before ? last : before;
    }
    gpur_tree_add_total(at, tree, change);
    if (a->slots)
        gpur_tree_add_total(at, &a->evict, evict_change);
}

/* Commits the maximum. The first warp of the first block does it. */
GPUR_FN void gpur_fold_max(gpur_thread at, const gpur_priority_insert_evict_args *a)
{
    gpur_priority_state *const state = a->tree.state;
    if (at.block != 0 || at.thread >= GPUR_WARP)
        return;
    const uint32_t largest = gpur_warp_get_u32(at, state->max_priority, 0); /* all lanes read it before lane 0 changes
                                                                               it */
    const uint32_t pending_max = gpur_warp_get_u32(at, state->pending_max, 0);
    const uint32_t lacking = gpur_warp_get_u32(at, state->pending_missing, 0);
    if (pending_max > largest && lacking)
        gpur_fold_max_fill(at, a, largest);
    if (at.thread != 0)
        return;
    state->max_priority = pending_max > largest ? pending_max : largest;
    state->pending_missing = 0;
}

/* Inserts rows whose slots are anywhere, each by one thread. */
GPUR_FN void gpur_insert_anywhere(gpur_thread at, const gpur_priority_insert_evict_args *a,
                                  gpur_insert_evict_counters *counters)
{
    const gpur_tree *const tree = &a->tree;
    const gpur_span rows = gpur_grid_span(at, a->rows);
    uint64_t change = 0, evict_change = 0;
    for (int64_t n = rows.first; n < rows.last; n += rows.step) {
        const int64_t slot = a->slots[(a->first_slot + n) % tree->capacity];
        tree->priority[slot] = gpur_insert_priority(a, slot, counters, &tree->leaf[slot]);
        tree->turn[slot]++;
        gpur_tree_add_above(tree, slot, tree->leaf[slot]);
        change += tree->leaf[slot];
        evict_change += gpur_tree_set_leaf(&a->evict, slot);
    }
    gpur_tree_add_total(at, tree, change);
    gpur_tree_add_total(at, &a->evict, evict_change);
}

/* Inserts or evicts rows with contiguous slots: a block takes a node of 128 leaves at a time. */
GPUR_FN void gpur_insert_evict_nodes(gpur_thread at, const gpur_priority_insert_evict_args *a,
                                     gpur_insert_evict_counters *counters)
{
    const int64_t first = a->first_slot, last = first + a->rows, first_node = first >> GPUR_TREE_SHIFT;
    const gpur_span nodes = gpur_block_rows(at, ((last - 1) >> GPUR_TREE_SHIFT) - first_node + 1);
    if (a->window && at.block == 0 && at.thread == 0)
        *a->window = a->next;
    for (int64_t n = nodes.first; n < nodes.last; n += nodes.step) {
        const uint64_t change = gpur_insert_evict_segments(at, a, first_node + n, counters);
        gpur_insert_evict_add(at, &a->tree, first_node + n, change);
    }
}

GPUR_FN void gpur_insert_evict_rows(gpur_thread at, const gpur_priority_insert_evict_args *a)
{
    gpur_priority_state *const state = a->tree.state;
    gpur_insert_evict_counters counters;
    counters.max_priority = gpur_priority_from_bits(state->max_priority);
    counters.max_leaf = gpur_leaf_of(counters.max_priority, state->alpha);
    counters.invalid = 0, counters.pending_max = 0;
    if (a->slots)
        gpur_insert_anywhere(at, a, &counters);
    else
        gpur_insert_evict_nodes(at, a, &counters);
    if (counters.invalid) {
        gpur_atomic_add_u64((uint64_t *)&state->invalid, counters.invalid);
        gpur_atomic_max_u32(&state->pending_missing, 1);
    }
    if (counters.pending_max)
        gpur_atomic_max_u32(&state->pending_max, counters.pending_max);
}

GPUR_KERNEL(priority_insert_evict)
{
    if (a->fold_max)
        gpur_fold_max(at, a);
    else if (a->rows > 0)
        gpur_insert_evict_rows(at, a);
}
