/* SPDX-License-Identifier: MIT */
/* Recomputes a level of the sum tree from the level below, or the leaves from the priorities: when alpha changes,
 * when a file is loaded, and, minima only, when rows are inserted or evicted. See gpur_priority_rebuild_args. */
#ifndef GPUR_KERNELS_PRIORITY_PRIORITY_REBUILD_H
#define GPUR_KERNELS_PRIORITY_PRIORITY_REBUILD_H

#include "kernels/priority/tree.h"

GPUR_FN void gpur_rebuild_leaves(gpur_place at, const gpur_priority_rebuild_args *a)
{
    const gpur_span span = gpur_grid_span(at, a->count);
    for (int64_t i = span.first; i < span.last; i += span.step)
        a->tree.leaf[a->first + i] = gpur_leaf_of(a->tree.raw[a->first + i], a->alpha);
    if (at.block == 0 && at.thread == 0)
        a->tree.state->alpha = a->alpha;
}

/* Recomputes the sum of a node and its segment sums. */
GPUR_FN void gpur_rebuild_sums(gpur_place at, const gpur_tree *tree, int32_t level, int64_t node)
{
    const int64_t first = node * GPUR_NODE_PARTS;
    uint64_t sum = 0;
    for (int i = 0; i < GPUR_NODE_PARTS; i++) {
        const uint64_t part = gpur_tree_part_sum(at, tree, level, first + i);
        if (gpur_lane(at) == 0 && gpur_tree_has_parts(tree, level))
            tree->part[level][first + i] = part;
        sum += part;
    }
    if (gpur_lane(at) == 0)
        tree->sum[level][node] = sum;
}

/* A warp for each node. */
GPUR_FN void gpur_rebuild_nodes(gpur_place at, const gpur_priority_rebuild_args *a)
{
    const gpur_span rows = gpur_warp_rows(at, a->count);
    for (int64_t i = rows.first; i < rows.last; i += rows.step) {
        const int64_t node = a->first + i;
        if (!a->only_least)
            gpur_rebuild_sums(at, &a->tree, a->level, node);
        if (a->tree.least[0]) {
            const uint32_t least = gpur_tree_node_least(at, &a->tree, a->level, node);
            if (gpur_lane(at) == 0)
                a->tree.least[a->level][node] = least;
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

#endif
