/* SPDX-License-Identifier: MIT */
/* Gives leaves to rows that enter the window and takes them from rows that leave it: gpur_priority_insert_evict_args.
 * A block handles a node of 128 leaves at a time, a warp a segment of 16. */
#pragma once

#include "kernels/priority/tree.h"

/* One thread's counters, and the default for rows without a valid priority: a priority and its leaf. */
typedef struct gpur_insert_evict_counters {
    gpur_leaf_scale scale;
    float first_priority;
    uint32_t first_leaf;
    uint64_t missing, invalid;
    uint32_t pending_max;
} gpur_insert_evict_counters;

/* Returns the priority stored in the row of this slot, and its leaf; or the default, if the row has no valid
 * priority. */
GPUR_FN float gpur_insert_priority(const gpur_priority_insert_evict_args *a, int64_t slot,
                                   gpur_insert_evict_counters *counters, uint32_t *leaf)
{
    float p = -1.0f;
    *leaf = counters->first_leaf;
    if (a->field_offset < 0)
        return counters->first_priority;
    memcpy(&p, a->ring + slot * a->pitch + a->field_offset, sizeof p);
    const int is_given = p == p && p != -1.0f;
    p = gpur_priority_add_offset(p, a->offset);
    if (p < 0.0f) {
        counters->missing++, counters->invalid += is_given ? 1 : 0;
        return counters->first_priority;
    }
    const uint32_t bits = gpur_priority_to_bits(p);
    counters->pending_max = bits > counters->pending_max ? bits : counters->pending_max;
    *leaf = gpur_leaf_of(p, counters->scale);
    return p;
}

/* Sets this lane's slots of one segment. Returns the change of the sum of the warp's slots. */
GPUR_FN uint64_t gpur_insert_evict_slots(gpur_thread at, const gpur_priority_insert_evict_args *a, int64_t first,
                                         int64_t last, gpur_insert_evict_counters *counters)
{
    uint64_t change = 0;
    uint32_t largest = 0;
    for (int64_t slot = first + gpur_lane(at); slot < last; slot += GPUR_WARP) {
        uint32_t leaf = 0;
        const float p = a->insert ? gpur_insert_priority(a, slot, counters, &leaf) : 0.0f;
        change += (uint64_t)leaf - (uint64_t)a->tree.leaf[slot];
        a->tree.leaf[slot] = leaf;
        a->tree.priority[slot] = p;
        largest = gpur_priority_to_bits(p) > largest ? gpur_priority_to_bits(p) : largest;
    }
    largest = gpur_warp_max_u32(at, largest);
    if (largest != 0 && gpur_lane(at) == 0)
        gpur_tree_raise(&a->tree, first, largest);
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
        gpur_tree_raise(tree, slot, gpur_priority_to_bits(tree->priority[slot]));
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
    counters.scale = gpur_tree_scale(&a->tree);
    counters.first_priority = gpur_priority_from_bits(gpur_tree_first_priority(&a->tree));
    counters.first_leaf = gpur_leaf_of(counters.first_priority, counters.scale);
    counters.missing = 0, counters.invalid = 0, counters.pending_max = 0;
    if (a->slots)
        gpur_insert_anywhere(at, a, &counters);
    else
        gpur_insert_evict_nodes(at, a, &counters);
    if (counters.invalid)
        gpur_atomic_add_u64((uint64_t *)&state->invalid, counters.invalid);
    if (counters.missing)
        gpur_atomic_max_u32(&state->pending_missing, 1);
    if (counters.pending_max)
        gpur_atomic_max_u32(&state->pending_max, counters.pending_max);
}

GPUR_KERNEL(priority_insert_evict)
{
    if (a->rows > 0)
        gpur_insert_evict_rows(at, a);
}
