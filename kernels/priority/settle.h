/* SPDX-License-Identifier: MIT */
/*
 * Settles the tree after a change: finds the largest priority in the window, and if it has left the scale of the
 * leaves, computes them anew. By one block. It follows from the priorities and the state, not from the order of
 * threads.
 *
 * A change only raises the bounds of nodes, because lowering one takes a look at all children. So where a row has lost
 * its priority, a bound may be too large. To settle is to follow the root's bound down: it leads to a row with that
 * priority, or to a node whose children all have smaller bounds. That node and those above it then get the largest
 * bound of their children, and the way begins anew. A bound is lowered at most once for each row that had it, and
 * mostly the row of the last time still has the largest priority.
 */
#pragma once

#include "kernels/priority/rebuild.h"

/* Whether the row with the largest priority is known. */
GPUR_FN int gpur_tree_is_tight(const gpur_tree *tree)
{
    const uint32_t bound = gpur_tree_root_bound(tree);
    return bound == 0 || gpur_priority_to_bits(tree->priority[tree->state->largest_slot]) == bound;
}

/* The first child of a node with this bound, or -1, by a warp. */
GPUR_FN int64_t gpur_tree_child_with(gpur_thread at, const gpur_tree *tree, int32_t level, int64_t node, uint32_t bound)
{
    const int64_t first = node * GPUR_TREE_FAN + gpur_lane(at) * GPUR_LANE_CHILDREN;
    const uint32_t *const child = gpur_tree_child_bounds(tree, level) + first;
    uint32_t found = GPUR_LANE_CHILDREN;
    for (uint32_t i = 0; i < GPUR_LANE_CHILDREN; i++) {
        const uint32_t here = child[i] == bound ? i : GPUR_LANE_CHILDREN;
        found = here < found ? here : found;
    }
    const int lane = gpur_warp_first(at, found < GPUR_LANE_CHILDREN);
    const uint32_t offset = gpur_warp_get_u32(at, found, lane < 0 ? 0 : lane);
    return lane < 0 ? -1 : node * GPUR_TREE_FAN + lane * GPUR_LANE_CHILDREN + (int64_t)offset;
}

/* Lowers the bound of a node, and of those above it, to the largest of their children. Each bound is known to all lanes
 * before lane 0 stores it, and none of them reads it again before the next barrier. */
GPUR_FN void gpur_tree_lower(gpur_thread at, const gpur_tree *tree, int32_t level, int64_t node)
{
    int64_t known = -1;
    uint32_t bound = 0;
    for (int32_t l = level; l < tree->levels; l++) {
        bound = gpur_tree_node_max(at, tree, l, node, known, bound);
        if (gpur_lane(at) == 0)
            gpur_tree_bounds(tree, l)[node] = bound;
        known = node;
        node >>= GPUR_TREE_SHIFT;
    }
}

/* Follows the root's bound down to its row, or lowers a bound that is too large. By a warp. */
GPUR_FN void gpur_tree_follow_bound(gpur_thread at, const gpur_tree *tree)
{
    const uint32_t bound = gpur_tree_root_bound(tree);
    int64_t node = 0;
    for (int32_t level = tree->levels - 1; level >= 0; level--) {
        const int64_t child = gpur_tree_child_with(at, tree, level, node, bound);
        if (child < 0) {
            gpur_tree_lower(at, tree, level, node);
            return;
        }
        node = child;
    }
    if (gpur_lane(at) == 0)
        tree->state->largest_slot = node;
}

/* Computes all leaves and sums anew, so that the largest priority, given by its bits, is on their scale. */
GPUR_FN void gpur_tree_rescale(gpur_thread at, const gpur_tree *tree, uint32_t largest)
{
    const float alpha = tree->state->alpha;
    int64_t count = tree->capacity;
    gpur_barrier(at); /* all threads have read the state */
    gpur_rebuild_leaves(at, tree, 0, count, alpha, gpur_octave_of(largest));
    for (int32_t level = 0; level < tree->levels; level++) {
        count = (count + GPUR_TREE_FAN - 1) >> GPUR_TREE_SHIFT;
        gpur_barrier(at);
        gpur_rebuild_nodes(at, tree, level, 0, count, GPUR_REBUILD_SUMS);
    }
    gpur_barrier(at);
}

/* Every thread of the only block must call it. */
GPUR_FN void gpur_tree_settle(gpur_thread at, const gpur_tree *tree, const gpur_tree *evict)
{
    for (;;) {
        gpur_barrier(at);
        const int is_tight = gpur_tree_is_tight(tree);
        gpur_barrier(at);
        if (is_tight)
            break;
        if (at.thread < GPUR_WARP)
            gpur_tree_follow_bound(at, tree);
    }
    const uint32_t largest = gpur_tree_root_bound(tree);
    if (at.thread == 0)
        tree->state->largest = largest;
    if (gpur_tree_is_off_scale(tree, largest))
        gpur_tree_rescale(at, tree, largest);
    if (evict->leaf && gpur_tree_is_off_scale(evict, largest))
        gpur_tree_rescale(at, evict, largest);
}
