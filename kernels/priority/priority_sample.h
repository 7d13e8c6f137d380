/* SPDX-License-Identifier: MIT */
/*
 * Samples rows by priority [Schaul et al. 2016, eq. 1]: row i has probability leaf_i / total, with leaf_i =
 * round(p_i^alpha 2^20). Stratified sampling: section 3.3 and appendix B.2.1. Arguments and shapes:
 * gpur_priority_sample_args. Each row of the batch gets a "mass", a number below the total, and the descent finds the
 * leaf that holds it.
 *
 * The parallel body gives each row a warp. The serial body takes row tiles down the tree and prefetches.
 */
#pragma once

#include "kernels/lib/random.h"
#include "kernels/cpu/random_lanes.h"
#include "kernels/priority/strata.h"
#include "kernels/priority/tree_descend.h"

/* State that all rows of one sample share. */
typedef struct gpur_priority_sample_state {
    gpur_window window;
    uint64_t step;
    gpur_strata strata;
} gpur_priority_sample_state;

GPUR_FN gpur_priority_sample_state gpur_priority_sample_begin(const gpur_priority_sample_args *a, gpur_divisor batch)
{
    gpur_priority_sample_state state;
    state.window = *a->window;
    state.step = a->step ? *a->step : a->step_value;
    state.strata = gpur_strata_of(gpur_tree_total(&a->tree), batch);
    return state;
}

GPUR_FN uint64_t gpur_priority_sample_bits(const gpur_priority_sample_state *state, const gpur_priority_sample_args *a,
                                           int64_t b)
{
    const gpur_u32x4 bits = gpur_random_bits(a->seed, a->purpose, state->step, (uint32_t)b);
    return (uint64_t)bits.v[1] << 32 | bits.v[0];
}

/* Whether rows are drawn uniformly, since none has a priority, or none is in the window: ids are then -1. */
GPUR_FN int gpur_priority_sample_is_uniform(const gpur_priority_sample_state *state)
{
    return state->strata.total == 0 || state->window.count == 0;
}

/* The id of row b of a uniform draw. Of lanes, lanes_gather draws another one. */
GPUR_FN int64_t gpur_priority_sample_uniform_id(const gpur_priority_sample_state *state,
                                                const gpur_priority_sample_args *a, int64_t b)
{
    const uint64_t count = (uint64_t)state->window.count;
    const int64_t offset = (int64_t)gpur_mulhi_u64(gpur_priority_sample_bits(state, a, b), count);
    return count > 0 ? state->window.first_id + offset : -1;
}

GPUR_FN void gpur_priority_sample_uniform(gpur_thread at, const gpur_priority_sample_state *state,
                                          const gpur_priority_sample_args *a)
{
    const gpur_span span = gpur_grid_span(at, a->batch);
    for (int64_t b = span.first; b < span.last; b += span.step) {
        a->id[b] = gpur_priority_sample_uniform_id(state, a, b);
        a->leaf[b] = 0;
    }
}

/* The mass of row b, a number below the total. */
GPUR_FN uint64_t gpur_sample_mass(const gpur_priority_sample_state *state, const gpur_priority_sample_args *a,
                                  int64_t b)
{
    if (a->mass)
        return a->mass[b];
    const uint64_t bits = gpur_priority_sample_bits(state, a, b);
    return a->stratified ? gpur_stratum_mass(&state->strata, b, bits) : gpur_mulhi_u64(bits, state->strata.total);
}

GPUR_FN void gpur_priority_sample_write(const gpur_priority_sample_state *state, const gpur_priority_sample_args *a,
                                        int64_t b, int64_t slot, uint32_t leaf)
{
    a->id[b] = gpur_tree_id(&a->tree, &state->window, slot);
    a->leaf[b] = leaf;
}

/* The parallel body: a warp for each row. */
GPUR_FN void gpur_priority_sample_parallel(gpur_thread at, const gpur_priority_sample_state *state,
                                           const gpur_priority_sample_args *a)
{
    const gpur_span rows = gpur_warp_rows(at, a->batch);
    const gpur_lane_children root = gpur_warp_root(at, &a->tree);
    for (int64_t b = rows.first; b < rows.last; b += rows.step) {
        const uint64_t u = gpur_sample_mass(state, a, b);
        const gpur_found_leaf found = gpur_warp_find(at, &a->tree, &root, u);
        if (gpur_lane(at) == 0)
            gpur_priority_sample_write(state, a, b, found.slot, found.leaf);
    }
}

/* Rows of a row tile. The serial body takes a tile down the tree one level at a time, so that the memory accesses of
 * its rows overlap. */
enum { GPUR_DESCENT_TILE_ROWS = 32 };

typedef struct gpur_descent_tile {
    int64_t first;
    int32_t rows;
    uint64_t mass[GPUR_DESCENT_TILE_ROWS];
    int64_t node[GPUR_DESCENT_TILE_ROWS];
} gpur_descent_tile;

GPUR_FN void gpur_descent_tile_bits(const gpur_priority_sample_state *state, const gpur_priority_sample_args *a,
                                    gpur_descent_tile *tile)
{
    for (int32_t i = 0; i < tile->rows; i += GPUR_LANES)
        gpur_random_lanes(a->seed, a->purpose, state->step, (uint32_t)(tile->first + i), &tile->mass[i]);
}

GPUR_FN void gpur_descent_tile_masses(const gpur_priority_sample_state *state, const gpur_priority_sample_args *a,
                                      gpur_strata_walk *walk, gpur_descent_tile *tile)
{
    if (a->mass) {
        memcpy(tile->mass, a->mass + tile->first, (size_t)tile->rows * sizeof *tile->mass);
        return;
    }
    gpur_descent_tile_bits(state, a, tile);
    for (int32_t i = 0; i < tile->rows; i++)
        tile->mass[i] = a->stratified ? gpur_strata_walk_mass(&state->strata, walk, tile->mass[i])
                                      : gpur_mulhi_u64(tile->mass[i], state->strata.total);
}

/* Prefetches the segment sums of a node of this level. Level -1 means a leaf, which has none. */
GPUR_FN void gpur_prefetch_segments(const gpur_tree *tree, int32_t level, int64_t node)
{
    if (level >= 0)
        gpur_prefetch(tree->segment[level] + node * GPUR_NODE_SEGMENTS);
}

/* Prefetches the children of a segment: 64 bytes of leaves, or 128 bytes of sums. */
GPUR_FN void gpur_prefetch_children(const gpur_tree *tree, int32_t level, int64_t first)
{
    if (level == 0) {
        gpur_prefetch(tree->leaf + first);
        return;
    }
    gpur_prefetch(tree->sum[level - 1] + first);
    gpur_prefetch(tree->sum[level - 1] + first + GPUR_TREE_SEGMENT / 2);
}

GPUR_FN void gpur_descent_tile_begin(const gpur_tree *tree, const gpur_root_prefix *top, gpur_descent_tile *tile)
{
    for (int32_t i = 0; i < tile->rows; i++) {
        tile->node[i] = gpur_descend_root(top, &tile->mass[i]);
        gpur_prefetch_segments(tree, tree->levels - 2, tile->node[i]);
    }
}

/* Descends from each row's node of this level to the first child of a segment. */
GPUR_FN void gpur_descent_tile_segment(const gpur_tree *tree, int32_t level, gpur_descent_tile *tile)
{
    for (int32_t i = 0; i < tile->rows; i++) {
        const int64_t first = tile->node[i] * GPUR_NODE_SEGMENTS;
        tile->node[i] = GPUR_TREE_SEGMENT * (first + gpur_descend_eight(tree->segment[level] + first, &tile->mass[i]));
        gpur_prefetch_children(tree, level, tile->node[i]);
    }
}

/* Descends from each row's segment to the child. */
GPUR_FN void gpur_descent_tile_child(const gpur_tree *tree, int32_t level, gpur_descent_tile *tile)
{
    for (int32_t i = 0; i < tile->rows; i++) {
        const int64_t first = tile->node[i];
        tile->node[i] += level == 0 ? gpur_descend_leaf(tree->leaf + first, &tile->mass[i])
                                    : gpur_descend_node(tree->sum[level - 1] + first, &tile->mass[i]);
        gpur_prefetch_segments(tree, level - 1, tile->node[i]);
    }
}

GPUR_FN void gpur_descent_tile_end(const gpur_priority_sample_state *state, const gpur_priority_sample_args *a,
                                   const gpur_descent_tile *tile)
{
    for (int32_t i = 0; i < tile->rows; i++)
        gpur_priority_sample_write(state, a, tile->first + i, tile->node[i], a->tree.leaf[tile->node[i]]);
}

/* The serial body: this block's share of the rows. */
GPUR_FN void gpur_priority_sample_serial(gpur_thread at, const gpur_priority_sample_state *state,
                                         const gpur_priority_sample_args *a)
{
    const gpur_span span = gpur_block_rows(at, a->batch);
    gpur_strata_walk walk = gpur_strata_walk_from(&state->strata, span.first);
    gpur_root_prefix top;
    gpur_descent_tile tile;
    gpur_root_prefix_of(&a->tree, &top);
    for (tile.first = span.first; tile.first < span.last; tile.first += tile.rows) {
        const int64_t left = span.last - tile.first;
        tile.rows = (int32_t)(left < GPUR_DESCENT_TILE_ROWS ? left : GPUR_DESCENT_TILE_ROWS);
        gpur_descent_tile_masses(state, a, &walk, &tile);
        gpur_descent_tile_begin(&a->tree, &top, &tile);
        for (int32_t l = a->tree.levels - 2; l >= 0; l--) {
            gpur_descent_tile_segment(&a->tree, l, &tile);
            gpur_descent_tile_child(&a->tree, l, &tile);
        }
        gpur_descent_tile_end(state, a, &tile);
    }
}

GPUR_KERNEL(priority_sample)
{
    const gpur_priority_sample_state state = gpur_priority_sample_begin(a, gpur_divisor_of(a->batch));
    if (gpur_priority_sample_is_uniform(&state))
        gpur_priority_sample_uniform(at, &state, a);
    else if (gpur_is_parallel())
        gpur_priority_sample_parallel(at, &state, a);
    else
        gpur_priority_sample_serial(at, &state, a);
}
