/* SPDX-License-Identifier: MIT */
/* Validates the sum tree: every leaf must follow from its priority, every node from its children. Also reads
 * priorities by id. */
#ifndef GPUR_KERNELS_PRIORITY_PRIORITY_VALIDATE_H
#define GPUR_KERNELS_PRIORITY_PRIORITY_VALIDATE_H

#include "kernels/priority/tree.h"

GPUR_FN int gpur_slot_is_visible(const gpur_tree *tree, const gpur_window *window, int64_t slot)
{
    return gpur_tree_id(tree, window, slot) - window->first_id < window->count;
}

/* A leaf must follow from its priority; outside the window both must be 0. */
GPUR_FN void gpur_survey_leaves(gpur_place at, const gpur_priority_survey_args *a)
{
    const gpur_span span = gpur_grid_span(at, a->count);
    const gpur_window window = *a->window;
    const float alpha = a->tree.state->alpha;
    uint64_t wrong = 0, drawable = 0;
    uint32_t least = UINT32_MAX;
    for (int64_t slot = span.first; slot < span.last; slot += span.step) {
        const uint32_t leaf = a->tree.leaf[slot], bits = gpur_priority_bits(a->tree.raw[slot]);
        if (gpur_slot_is_visible(&a->tree, &window, slot))
            wrong += leaf != gpur_leaf_of(a->tree.raw[slot], alpha);
        else
            wrong += leaf != 0 || bits != 0;
        drawable += leaf != 0;
        least = leaf != 0 && bits < least ? bits : least;
    }
    if (wrong)
        gpur_atomic_add_u64((uint64_t *)&a->found->wrong, wrong);
    if (drawable)
        gpur_atomic_add_u64((uint64_t *)&a->found->drawable, drawable);
    gpur_atomic_min_u32(&a->found->least, least);
}

/* Counts the wrong sums of a node: its own, and those of its segments. */
GPUR_FN uint64_t gpur_survey_sums(gpur_place at, const gpur_tree *tree, int32_t level, int64_t node)
{
    const int64_t first = node * GPUR_NODE_PARTS;
    uint64_t sum = 0, wrong = 0;
    for (int i = 0; i < GPUR_NODE_PARTS; i++) {
        const uint64_t part = gpur_tree_part_sum(at, tree, level, first + i);
        wrong += gpur_tree_has_parts(tree, level) && tree->part[level][first + i] != part;
        sum += part;
    }
    return wrong + (tree->sum[level][node] != sum);
}

/* A warp for each node. */
GPUR_FN void gpur_survey_nodes(gpur_place at, const gpur_priority_survey_args *a)
{
    const gpur_span nodes = gpur_warp_rows(at, a->count);
    uint64_t wrong = 0;
    for (int64_t n = nodes.first; n < nodes.last; n += nodes.step) {
        wrong += gpur_survey_sums(at, &a->tree, a->level, n);
        if (a->tree.least[0])
            wrong += gpur_tree_node_least(at, &a->tree, a->level, n) != a->tree.least[a->level][n];
    }
    if (wrong && gpur_lane(at) == 0)
        gpur_atomic_add_u64((uint64_t *)&a->found->wrong, wrong);
}

GPUR_KERNEL(priority_survey)
{
    if (a->level < 0)
        gpur_survey_leaves(at, a);
    else
        gpur_survey_nodes(at, a);
}

GPUR_KERNEL(priority_read)
{
    const gpur_span span = gpur_grid_span(at, a->count);
    const gpur_window window = *a->window;
    for (int64_t i = span.first; i < span.last; i += span.step) {
        const int64_t slot = gpur_tree_slot(&a->tree, &window, a->id[i]);
        a->priority[i] = slot < 0 ? NAN : a->tree.raw[slot];
    }
}

#endif
