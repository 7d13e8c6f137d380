/* SPDX-License-Identifier: MIT */
/*
 * One level of a descent: the child in which the u-th unit of a node lies, and how far into that child it is. The child
 * is the first whose prefix sum exceeds u, and so never one of 0.
 */
#ifndef GPUR_TREE_PICK_H
#define GPUR_TREE_PICK_H

#include "tree.h"

/* By a warp. `own` are this lane's children, `first` their place in the node. */
GPUR_FN int64_t gpur_warp_pick(gpur_place at, const uint64_t *own, uint64_t *u)
{
    uint64_t sum = 0;
    for (int i = 0; i < GPUR_LANE_CHILDREN; i++)
        sum += own[i];
    const uint64_t prefix = gpur_warp_prefix_u64(at, sum);
    const int first = gpur_warp_first(at, prefix > *u), lane = first < 0 ? GPUR_WARP - 1 : first;
    uint64_t below = prefix - sum, into = *u - below;
    uint32_t child = 0;
    for (int i = 0; i + 1 < GPUR_LANE_CHILDREN; i++) {
        const int past = into >= own[i] && child == (uint32_t)i;
        into -= past ? own[i] : 0;
        child += (uint32_t)past;
    }
    *u = gpur_warp_get_u64(at, into, lane);
    return lane * GPUR_LANE_CHILDREN + (int64_t)gpur_warp_get_u32(at, child, lane);
}

GPUR_FN int64_t gpur_warp_pick_node(gpur_place at, const uint64_t *node, uint64_t *u)
{
    const uint64_t *const from = node + gpur_lane(at) * GPUR_LANE_CHILDREN;
    uint64_t own[GPUR_LANE_CHILDREN];
    for (int i = 0; i < GPUR_LANE_CHILDREN; i++)
        own[i] = from[i];
    return gpur_warp_pick(at, own, u);
}

GPUR_FN int64_t gpur_warp_pick_leaf(gpur_place at, const uint32_t *leaf, uint64_t *u)
{
    const uint32_t *const from = leaf + gpur_lane(at) * GPUR_LANE_CHILDREN;
    uint64_t own[GPUR_LANE_CHILDREN];
    for (int i = 0; i < GPUR_LANE_CHILDREN; i++)
        own[i] = from[i];
    return gpur_warp_pick(at, own, u);
}

/* The slot of the u-th unit of the whole tree, by a warp; u is below the total. */
GPUR_FN int64_t gpur_warp_find(gpur_place at, const gpur_tree *tree, uint64_t u)
{
    int64_t node = 0;
    for (int l = tree->levels - 2; l >= 0; l--)
        node = node * GPUR_TREE_FAN + gpur_warp_pick_node(at, tree->sum[l] + node * GPUR_TREE_FAN, &u);
    return node * GPUR_TREE_FAN + gpur_warp_pick_leaf(at, tree->leaf + node * GPUR_TREE_FAN, &u);
}

/*
 * By one thread: eight groups of 16, then the 16 children of one of them, without a branch, so that several descents
 * overlap. `into` is u on the way in and out.
 */
enum { GPUR_PICK_GROUP = 16, GPUR_PICK_GROUPS = GPUR_TREE_FAN / GPUR_PICK_GROUP };

/* The first of n numbers whose prefix sum exceeds u, which loses what is before it. */
GPUR_FN int64_t gpur_pick_of(const uint64_t *x, int n, uint64_t *u)
{
    const uint64_t wanted = *u;
    uint64_t sum = 0, below = 0;
    int64_t found = 0;
    for (int i = 0; i + 1 < n; i++) {
        sum += x[i];
        found += sum <= wanted;
        below = sum <= wanted ? sum : below;
    }
    *u = wanted - below;
    return found;
}

GPUR_FN int64_t gpur_pick_node(const uint64_t *node, uint64_t *u)
{
    uint64_t groups[GPUR_PICK_GROUPS];
    for (int g = 0; g < GPUR_PICK_GROUPS; g++) {
        uint64_t sum = 0;
        for (int i = 0; i < GPUR_PICK_GROUP; i++)
            sum += node[g * GPUR_PICK_GROUP + i];
        groups[g] = sum;
    }
    const int64_t group = gpur_pick_of(groups, GPUR_PICK_GROUPS, u) * GPUR_PICK_GROUP;
    return group + gpur_pick_of(node + group, GPUR_PICK_GROUP, u);
}

GPUR_FN int64_t gpur_pick_leaf(const uint32_t *leaf, uint64_t *u)
{
    uint64_t groups[GPUR_PICK_GROUPS], children[GPUR_PICK_GROUP];
    for (int g = 0; g < GPUR_PICK_GROUPS; g++) {
        uint64_t sum = 0;
        for (int i = 0; i < GPUR_PICK_GROUP; i++)
            sum += leaf[g * GPUR_PICK_GROUP + i];
        groups[g] = sum;
    }
    const int64_t group = gpur_pick_of(groups, GPUR_PICK_GROUPS, u) * GPUR_PICK_GROUP;
    for (int i = 0; i < GPUR_PICK_GROUP; i++)
        children[i] = leaf[group + i];
    return group + gpur_pick_of(children, GPUR_PICK_GROUP, u);
}

#endif
