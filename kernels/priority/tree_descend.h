/* SPDX-License-Identifier: MIT */
/* One level of a descent: finds the child of a node that holds mass u, and subtracts the sums of the children before
 * it from u. That child is the first whose prefix sum exceeds u, so it never is a child of 0. */
#pragma once

#include "kernels/priority/tree.h"

/* The children of one node that a lane reads: sums, or leaves. */
typedef struct gpur_lane_children {
    uint64_t own[GPUR_LANE_CHILDREN];
} gpur_lane_children;

/* Loads this lane's children of a node of this level. A node begins at a multiple of 256 bytes, so that a lane loads
 * its children as wide as it can. */
GPUR_FN gpur_lane_children gpur_warp_children(gpur_thread at, const gpur_tree *tree, int32_t level, int64_t node)
{
    const int64_t first = node * GPUR_TREE_FAN + gpur_lane(at) * GPUR_LANE_CHILDREN;
    gpur_lane_children children;
    uint32_t leaves[GPUR_LANE_CHILDREN];
    if (level > 0) {
        memcpy(children.own, __builtin_assume_aligned(tree->sum[level - 1] + first, 16), sizeof children.own);
        return children;
    }
    memcpy(leaves, __builtin_assume_aligned(tree->leaf + first, 16), sizeof leaves);
    for (int i = 0; i < GPUR_LANE_CHILDREN; i++)
        children.own[i] = leaves[i];
    return children;
}

/* Those of the root, where every descent begins. */
GPUR_FN gpur_lane_children gpur_warp_root(gpur_thread at, const gpur_tree *tree)
{
    return gpur_warp_children(at, tree, tree->levels - 1, 0);
}

/* One level, by a warp. */
GPUR_FN int64_t gpur_warp_descend(gpur_thread at, const gpur_lane_children *children, uint64_t *u)
{
    const uint64_t *const own = children->own;
    uint64_t sum = 0;
    for (int i = 0; i < GPUR_LANE_CHILDREN; i++)
        sum += own[i];
    const uint64_t prefix = gpur_warp_prefix_u64(at, sum);
    const int first = gpur_warp_first(at, prefix > *u), lane = first < 0 ? GPUR_WARP - 1 : first;
    uint64_t below = prefix - sum, into = *u - below;
    uint32_t child = 0;
    for (int i = 0; i + 1 < GPUR_LANE_CHILDREN; i++) {
        const int right = into >= own[i] && child == (uint32_t)i;
        into -= right ? own[i] : 0;
        child += (uint32_t)right;
    }
    *u = gpur_warp_get_u64(at, into, lane);
    return lane * GPUR_LANE_CHILDREN + (int64_t)gpur_warp_get_u32(at, child, lane);
}

/* A leaf that a descent has found, and its slot. */
typedef struct gpur_found_leaf {
    int64_t slot;
    uint32_t leaf;
} gpur_found_leaf;

/* The leaf that holds mass u, which is below the total. The whole descent, by a warp. The leaf is one that a lane has
 * loaded for the last level. */
GPUR_FN gpur_found_leaf gpur_warp_find(gpur_thread at, const gpur_tree *tree, const gpur_lane_children *root,
                                       uint64_t u)
{
    gpur_lane_children children = *root;
    int64_t child = gpur_warp_descend(at, &children, &u);
    gpur_found_leaf found;
    found.slot = child;
    for (int32_t level = tree->levels - 2; level >= 0; level--) {
        children = gpur_warp_children(at, tree, level, found.slot);
        child = gpur_warp_descend(at, &children, &u);
        found.slot = found.slot * GPUR_TREE_FAN + child;
    }
    found.leaf = 0;
    for (int i = 0; i < GPUR_LANE_CHILDREN; i++)
        found.leaf = child % GPUR_LANE_CHILDREN == i ? (uint32_t)children.own[i] : found.leaf;
    found.leaf = gpur_warp_get_u32(at, found.leaf, (int)(child / GPUR_LANE_CHILDREN));
    return found;
}

/* The same by one thread, which needs no segment sums: for the few descents of a kernel whose threads have other work,
 * too. */
GPUR_FN int64_t gpur_thread_find(const gpur_tree *tree, uint64_t u)
{
    int64_t node = 0;
    for (int l = tree->levels - 1; l >= 0; l--) {
        const int64_t last = node * GPUR_TREE_FAN + GPUR_TREE_FAN - 1;
        for (node *= GPUR_TREE_FAN; node < last; node++) {
            const uint64_t own = l > 0 ? tree->sum[l - 1][node] : tree->leaf[node];
            if (u < own)
                break;
            u -= own;
        }
    }
    return node;
}

/* Descents by one thread, without branches, so that several of them overlap. Each level is two choices: among the 8
 * segments of a node, which are one cache line, and among the 16 children of a segment. */

/* Returns the first of 8 numbers whose prefix sum exceeds u, and subtracts the numbers before it from u. */
GPUR_FN int64_t gpur_descend_eight(const uint64_t *x, uint64_t *u)
{
    const uint64_t wanted = *u;
    uint64_t sum = 0, below = 0;
    int64_t found = 0;
    for (int i = 0; i + 1 < 8; i++) {
        sum += x[i];
        found += sum <= wanted;
        below = sum <= wanted ? sum : below;
    }
    *u = wanted - below;
    return found;
}

/* Returns the first child of that half of a segment that holds u, and makes u relative to it; `sum` is the sum of the
 * first half. */
GPUR_FN int64_t gpur_descend_half(uint64_t sum, uint64_t *u)
{
    const int right = sum <= *u;
    *u -= right ? sum : 0;
    return right ? GPUR_TREE_SEGMENT / 2 : 0;
}

GPUR_FN int64_t gpur_descend_node(const uint64_t *segment, uint64_t *u)
{
    uint64_t sum = 0;
    for (int i = 0; i < GPUR_TREE_SEGMENT / 2; i++)
        sum += segment[i];
    const int64_t first = gpur_descend_half(sum, u);
    return first + gpur_descend_eight(segment + first, u);
}

GPUR_FN int64_t gpur_descend_leaf(const uint32_t *segment, uint64_t *u)
{
    uint64_t sum = 0, half[GPUR_TREE_SEGMENT / 2];
    for (int i = 0; i < GPUR_TREE_SEGMENT / 2; i++)
        sum += segment[i];
    const int64_t first = gpur_descend_half(sum, u);
    for (int i = 0; i < GPUR_TREE_SEGMENT / 2; i++)
        half[i] = segment[first + i];
    return first + gpur_descend_eight(half, u);
}

/* Prefix sums of the root's children. Every descent begins there, so they are computed once for many descents. */
typedef struct gpur_root_prefix {
    uint64_t before[GPUR_TREE_FAN]; /* sum of the children before each */
} gpur_root_prefix;

GPUR_FN void gpur_root_prefix_of(const gpur_tree *tree, gpur_root_prefix *top)
{
    uint64_t sum = 0;
    for (int i = 0; i < GPUR_TREE_FAN; i++) {
        top->before[i] = sum;
        sum += tree->levels > 1 ? tree->sum[tree->levels - 2][i] : tree->leaf[i];
    }
}

/* Returns the last child with a sum of at most u before it, by a binary search, and makes u relative to that child.
 * Children of 0 are never the last: the child after them has the same sum before it. */
GPUR_FN int64_t gpur_descend_root(const gpur_root_prefix *top, uint64_t *u)
{
    int64_t first = 0;
    for (int half = GPUR_TREE_FAN / 2; half > 0; half /= 2)
        first += top->before[first + half] <= *u ? half : 0;
    *u -= top->before[first];
    return first;
}
