/* SPDX-License-Identifier: MIT */
/*
 * Samples rows by priority [Schaul et al. 2016, eq. 1]: row i has probability leaf_i / total, with leaf_i =
 * round(p_i^alpha 2^20). Stratified sampling: section 3.3 and appendix B.2.1. Arguments and shapes:
 * gpur_priority_draw_args. Each row of the batch gets a "mass", a number below the total, and the descent finds the
 * leaf that holds it.
 *
 * The parallel body gives each row a warp. The serial body takes row tiles down the tree and prefetches.
 */
#ifndef GPUR_KERNELS_PRIORITY_PRIORITY_DRAW_H
#define GPUR_KERNELS_PRIORITY_PRIORITY_DRAW_H

#include "kernels/lib/random.h"
#include "kernels/cpu/random_lanes.h"
#include "kernels/priority/strata.h"
#include "kernels/priority/tree_descend.h"

/* State that all rows of one sample share. */
typedef struct gpur_priority_draw_of {
    gpur_window window;
    uint64_t step;
    gpur_strata strata;
} gpur_priority_draw_of;

GPUR_FN gpur_priority_draw_of gpur_priority_draw_begin(const gpur_priority_draw_args *a)
{
    gpur_priority_draw_of draw;
    draw.window = *a->window;
    draw.step = a->step ? *a->step : a->step_value;
    draw.strata = gpur_strata_of(gpur_tree_total(&a->tree), a->batch);
    return draw;
}

GPUR_FN uint64_t gpur_priority_random(const gpur_priority_draw_of *draw, const gpur_priority_draw_args *a, int64_t b)
{
    const gpur_u32x4 bits = gpur_random_bits(a->seed, a->purpose, draw->step, (uint32_t)b);
    return (uint64_t)bits.v[1] << 32 | bits.v[0];
}

/* Samples uniformly, since no row has a priority, or none is in the window: ids are then -1. */
GPUR_FN void gpur_priority_draw_uniform(gpur_place at, const gpur_priority_draw_of *draw,
                                        const gpur_priority_draw_args *a)
{
    const gpur_span span = gpur_grid_span(at, a->batch);
    const uint64_t count = (uint64_t)draw->window.count;
    for (int64_t b = span.first; b < span.last; b += span.step) {
        const int64_t offset = (int64_t)gpur_mulhi_u64(gpur_priority_random(draw, a, b), count);
        a->id[b] = count > 0 ? draw->window.first_id + offset : -1;
        a->leaf[b] = 0;
    }
}

/* The mass of row b, a number below the total. */
GPUR_FN uint64_t gpur_priority_unit(const gpur_priority_draw_of *draw, const gpur_priority_draw_args *a, int64_t b)
{
    if (a->unit)
        return a->unit[b];
    const uint64_t bits = gpur_priority_random(draw, a, b);
    return a->stratified ? gpur_stratum_unit(&draw->strata, b, bits) : gpur_mulhi_u64(bits, draw->strata.total);
}

GPUR_FN void gpur_priority_put(const gpur_priority_draw_of *draw, const gpur_priority_draw_args *a, int64_t b,
                               int64_t slot)
{
    a->id[b] = gpur_tree_id(&a->tree, &draw->window, slot);
    a->leaf[b] = a->tree.leaf[slot];
}

/* The parallel body: a warp for each row. */
GPUR_FN void gpur_priority_draw_together(gpur_place at, const gpur_priority_draw_of *draw,
                                         const gpur_priority_draw_args *a)
{
    const gpur_span rows = gpur_warp_rows(at, a->batch);
    for (int64_t b = rows.first; b < rows.last; b += rows.step) {
        const uint64_t u = gpur_priority_unit(draw, a, b);
        const int64_t slot = gpur_warp_find(at, &a->tree, u);
        if (gpur_lane(at) == 0)
            gpur_priority_put(draw, a, b, slot);
    }
}

/* Rows of a row tile. The serial body takes a tile down the tree one level at a time, so that the memory accesses of
 * its rows overlap. */
enum { GPUR_DRAW_HAND = 32 };

typedef struct gpur_draw_hand {
    int64_t first;
    int32_t rows;
    uint64_t u[GPUR_DRAW_HAND];
    int64_t node[GPUR_DRAW_HAND];
} gpur_draw_hand;

GPUR_FN void gpur_draw_hand_bits(const gpur_priority_draw_of *draw, const gpur_priority_draw_args *a,
                                 gpur_draw_hand *hand)
{
    for (int32_t i = 0; i < hand->rows; i += GPUR_LANES)
        gpur_random_lanes(a->seed, a->purpose, draw->step, (uint32_t)(hand->first + i), &hand->u[i]);
}

GPUR_FN void gpur_draw_hand_units(const gpur_priority_draw_of *draw, const gpur_priority_draw_args *a,
                                  gpur_strata_walk *walk, gpur_draw_hand *hand)
{
    if (a->unit) {
        memcpy(hand->u, a->unit + hand->first, (size_t)hand->rows * sizeof *hand->u);
        return;
    }
    gpur_draw_hand_bits(draw, a, hand);
    for (int32_t i = 0; i < hand->rows; i++)
        hand->u[i] = a->stratified ? gpur_strata_walk_unit(&draw->strata, walk, hand->u[i])
                                   : gpur_mulhi_u64(hand->u[i], draw->strata.total);
}

/* Prefetches the segment sums of a node of this level. Level -1 means a leaf, which has none. */
GPUR_FN void gpur_prefetch_parts(const gpur_tree *tree, int32_t level, int64_t node)
{
    if (level >= 0)
        gpur_prefetch(tree->part[level] + node * GPUR_NODE_PARTS);
}

/* Prefetches the children of a segment: 64 bytes of leaves, or 128 bytes of sums. */
GPUR_FN void gpur_prefetch_children(const gpur_tree *tree, int32_t level, int64_t first)
{
    if (level == 0) {
        gpur_prefetch(tree->leaf + first);
        return;
    }
    gpur_prefetch(tree->sum[level - 1] + first);
    gpur_prefetch(tree->sum[level - 1] + first + GPUR_TREE_PART / 2);
}

GPUR_FN void gpur_draw_hand_begin(const gpur_tree *tree, const gpur_pick_top *top, gpur_draw_hand *hand)
{
    for (int32_t i = 0; i < hand->rows; i++) {
        hand->node[i] = gpur_pick_from_top(top, &hand->u[i]);
        gpur_prefetch_parts(tree, tree->levels - 2, hand->node[i]);
    }
}

/* Descends from each row's node of this level to the first child of a segment. */
GPUR_FN void gpur_draw_hand_part(const gpur_tree *tree, int32_t level, gpur_draw_hand *hand)
{
    for (int32_t i = 0; i < hand->rows; i++) {
        const int64_t first = hand->node[i] * GPUR_NODE_PARTS;
        hand->node[i] = GPUR_TREE_PART * (first + gpur_pick_of_eight(tree->part[level] + first, &hand->u[i]));
        gpur_prefetch_children(tree, level, hand->node[i]);
    }
}

/* Descends from each row's segment to the child. */
GPUR_FN void gpur_draw_hand_child(const gpur_tree *tree, int32_t level, gpur_draw_hand *hand)
{
    for (int32_t i = 0; i < hand->rows; i++) {
        const int64_t first = hand->node[i];
        hand->node[i] += level == 0 ? gpur_pick_leaf(tree->leaf + first, &hand->u[i])
                                    : gpur_pick_node(tree->sum[level - 1] + first, &hand->u[i]);
        gpur_prefetch_parts(tree, level - 1, hand->node[i]);
    }
}

GPUR_FN void gpur_draw_hand_end(const gpur_priority_draw_of *draw, const gpur_priority_draw_args *a,
                                const gpur_draw_hand *hand)
{
    for (int32_t i = 0; i < hand->rows; i++)
        gpur_priority_put(draw, a, hand->first + i, hand->node[i]);
}

/* The serial body: this block's share of the rows. */
GPUR_FN void gpur_priority_draw_alone(gpur_place at, const gpur_priority_draw_of *draw,
                                      const gpur_priority_draw_args *a)
{
    const gpur_span span = gpur_block_rows(at, a->batch);
    gpur_strata_walk walk = gpur_strata_walk_from(&draw->strata, span.first);
    gpur_pick_top top;
    gpur_draw_hand hand;
    gpur_pick_top_of(&a->tree, &top);
    for (hand.first = span.first; hand.first < span.last; hand.first += hand.rows) {
        const int64_t left = span.last - hand.first;
        hand.rows = (int32_t)(left < GPUR_DRAW_HAND ? left : GPUR_DRAW_HAND);
        gpur_draw_hand_units(draw, a, &walk, &hand);
        gpur_draw_hand_begin(&a->tree, &top, &hand);
        for (int32_t l = a->tree.levels - 2; l >= 0; l--) {
            gpur_draw_hand_part(&a->tree, l, &hand);
            gpur_draw_hand_child(&a->tree, l, &hand);
        }
        gpur_draw_hand_end(draw, a, &hand);
    }
}

GPUR_KERNEL(priority_draw)
{
    const gpur_priority_draw_of draw = gpur_priority_draw_begin(a);
    if (draw.strata.total == 0 || draw.window.count == 0)
        gpur_priority_draw_uniform(at, &draw, a);
    else if (gpur_strided())
        gpur_priority_draw_together(at, &draw, a);
    else
        gpur_priority_draw_alone(at, &draw, a);
}

#endif
