/* SPDX-License-Identifier: MIT */
/* Validates the sum tree: every leaf must follow from its priority, every node from its children. Also reads
 * priorities by id. */
#pragma once

#include "kernels/priority/tree.h"

GPUR_FN int gpur_slot_is_visible(const gpur_tree *tree, const gpur_window *window, int64_t slot)
{
    if (tree->turn)
        return tree->turn[slot] % 2 == 1;
    return gpur_tree_id(tree, window, slot) - window->first_id < window->count;
}

/* A leaf must follow from its priority; outside the window both must be 0. */
GPUR_FN void gpur_validate_leaves(gpur_thread at, const gpur_priority_validate_args *a)
{
    const gpur_span span = gpur_grid_span(at, a->count);
    const gpur_window window = *a->window;
    const gpur_leaf_scale scale = gpur_tree_scale(&a->tree);
    uint64_t wrong = 0, nonzero = 0, raised = 0;
    uint32_t smallest = UINT32_MAX, largest = 0;
    for (int64_t slot = span.first; slot < span.last; slot += span.step) {
        const uint32_t leaf = a->tree.leaf[slot], bits = gpur_priority_to_bits(a->tree.priority[slot]);
        if (gpur_slot_is_visible(&a->tree, &window, slot))
            wrong += leaf != gpur_tree_leaf(&a->tree, slot, scale);
        else
            wrong += leaf != 0 || bits != 0;
        nonzero += leaf != 0;
        raised += leaf == 1 && gpur_leaf_before_rounding(a->tree.priority[slot], scale) < 0.5;
        smallest = leaf != 0 && bits < smallest ? bits : smallest;
        largest = bits > largest ? bits : largest;
    }
    if (wrong)
        gpur_atomic_add_u64((uint64_t *)&a->report->wrong, wrong);
    if (nonzero)
        gpur_atomic_add_u64((uint64_t *)&a->report->nonzero_leaves, nonzero);
    if (raised)
        gpur_atomic_add_u64((uint64_t *)&a->report->raised, raised);
    gpur_atomic_min_u32(&a->report->min_priority, smallest);
    gpur_atomic_max_u32(&a->report->max_priority, largest);
}

/* Counts the wrong sums of a node: its own, and those of its segments. */
GPUR_FN uint64_t gpur_validate_sums(gpur_thread at, const gpur_tree *tree, int32_t level, int64_t node)
{
    const int64_t first = node * GPUR_NODE_SEGMENTS;
    uint64_t sum = 0, wrong = 0;
    for (int i = 0; i < GPUR_NODE_SEGMENTS; i++) {
        const uint64_t segment = gpur_tree_segment_sum(at, tree, level, first + i);
        wrong += gpur_tree_has_segments(tree, level) && tree->segment[level][first + i] != segment;
        sum += segment;
    }
    return wrong + (tree->sum[level][node] != sum);
}

/* 1 if the bound of a node is below one of its children, or if that of the root, which is settled, is not the largest
 * priority. */
GPUR_FN uint64_t gpur_validate_bound(gpur_thread at, const gpur_priority_validate_args *a, int64_t node)
{
    const gpur_tree *const tree = &a->tree;
    const uint32_t largest = gpur_tree_node_max(at, tree, a->level, node, -1, 0);
    const uint32_t bound = gpur_tree_bounds(tree, a->level)[node];
    return bound < largest || (a->level == tree->levels - 1 && bound != a->report->max_priority);
}

/* A warp for each node. */
GPUR_FN void gpur_validate_nodes(gpur_thread at, const gpur_priority_validate_args *a)
{
    const gpur_span nodes = gpur_warp_rows(at, a->count);
    uint64_t wrong = 0;
    for (int64_t n = nodes.first; n < nodes.last; n += nodes.step) {
        wrong += gpur_validate_sums(at, &a->tree, a->level, n);
        if (a->tree.bound)
            wrong += gpur_validate_bound(at, a, n);
        if (a->tree.min_leaf[0])
            wrong += gpur_tree_node_min(at, &a->tree, a->level, n) != a->tree.min_leaf[a->level][n];
    }
    if (wrong && gpur_lane(at) == 0)
        gpur_atomic_add_u64((uint64_t *)&a->report->wrong, wrong);
}

GPUR_KERNEL(priority_validate)
{
    if (a->level < 0)
        gpur_validate_leaves(at, a);
    else
        gpur_validate_nodes(at, a);
}

GPUR_KERNEL(priority_read)
{
    const gpur_span span = gpur_grid_span(at, a->count);
    const gpur_window window = *a->window;
    for (int64_t i = span.first; i < span.last; i += span.step) {
        const int64_t slot = gpur_tree_slot(&a->tree, &window, a->id[i]);
        a->priority[i] = slot < 0 ? NAN : a->tree.priority[slot];
    }
}
