/* SPDX-License-Identifier: MIT */
/* Recomputes a level of the sum tree from the level below, or the leaves from the priorities: when alpha changes,
 * when a file is loaded, and, minima only, when rows are inserted or evicted. See gpur_priority_rebuild_args. */
#pragma once

#include "kernels/priority/tree.h"

GPUR_FN void gpur_rebuild_leaves(gpur_thread at, const gpur_priority_rebuild_args *a)
{
    const gpur_span span = gpur_grid_span(at, a->count);
    for (int64_t i = span.first; i < span.last; i += span.step)
        a->tree.leaf[a->first + i] = gpur_tree_leaf(&a->tree, a->first + i, a->alpha);
    if (at.block == 0 && at.thread == 0)
        a->tree.state->alpha = a->alpha;
}

/* Recomputes the sum of a node and its segment sums. */
GPUR_FN void gpur_rebuild_sums(gpur_thread at, const gpur_tree *tree, int32_t level, int64_t node)
{
    const int64_t first = node * GPUR_NODE_SEGMENTS;
    uint64_t sum = 0;
    for (int i = 0; i < GPUR_NODE_SEGMENTS; i++) {
        const uint64_t segment = gpur_tree_segment_sum(at, tree, level, first + i);
        if (gpur_lane(at) == 0 && gpur_tree_has_segments(tree, level))
            tree->segment[level][first + i] = segment;
        sum += segment;
    }
    if (gpur_lane(at) == 0)
        tree->sum[level][node] = sum;
}

/* A warp for each node. */
GPUR_FN void gpur_rebuild_nodes(gpur_thread at, const gpur_priority_rebuild_args *a)
{
    const gpur_span rows = gpur_warp_rows(at, a->count);
    for (int64_t i = rows.first; i < rows.last; i += rows.step) {
        const int64_t node = a->first + i;
        if (!a->only_min)
            gpur_rebuild_sums(at, &a->tree, a->level, node);
        if (a->tree.min_leaf[0]) {
            const uint32_t smallest = gpur_tree_node_min(at, &a->tree, a->level, node);
            if (gpur_lane(at) == 0)
                a->tree.min_leaf[a->level][node] = smallest;
        }
    }
}

GPUR_KERNEL(priority_rebuild)
{
    if (a->level < 0)
        gpur_rebuild_leaves(at, a);
    else
        gpur_rebuild_nodes(at, a);
}
