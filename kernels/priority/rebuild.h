/* SPDX-License-Identifier: MIT */
/* Recomputes leaves from priorities, and nodes from their children. */
#pragma once

#include "kernels/priority/tree.h"

GPUR_FN void gpur_rebuild_leaves(gpur_thread at, const gpur_tree *tree, int64_t first, int64_t count, float alpha,
                                 int32_t octave)
{
    const gpur_span span = gpur_grid_span(at, count);
    const gpur_leaf_scale scale = gpur_leaf_scale_of(tree, alpha, octave);
    for (int64_t i = span.first; i < span.last; i += span.step)
        tree->leaf[first + i] = gpur_tree_leaf(tree, first + i, scale);
    if (at.block == 0 && at.thread == 0) {
        tree->state->alpha = alpha;
        tree->state->octave = octave;
    }
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

/* Recomputes what `what` says of one node, by a warp. */
GPUR_FN void gpur_rebuild_node(gpur_thread at, const gpur_tree *tree, int32_t level, int64_t node, int32_t what)
{
    if (what == GPUR_REBUILD_LARGEST) {
        const uint32_t largest = gpur_tree_node_max(at, tree, level, node, -1, 0);
        if (gpur_lane(at) == 0)
            gpur_tree_bounds(tree, level)[node] = largest;
        return;
    }
    if (what == GPUR_REBUILD_SUMS)
        gpur_rebuild_sums(at, tree, level, node);
    if (tree->min_leaf[0]) {
        const uint32_t smallest = gpur_tree_node_min(at, tree, level, node);
        if (gpur_lane(at) == 0)
            tree->min_leaf[level][node] = smallest;
    }
}

/* A warp for each node. */
GPUR_FN void gpur_rebuild_nodes(gpur_thread at, const gpur_tree *tree, int32_t level, int64_t first, int64_t count,
                                int32_t what)
{
    const gpur_span rows = gpur_warp_rows(at, count);
    for (int64_t i = rows.first; i < rows.last; i += rows.step)
        gpur_rebuild_node(at, tree, level, first + i, what);
}
