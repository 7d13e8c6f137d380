/* SPDX-License-Identifier: MIT */
/*
 * Matrix products by tiles of C, for kernels that compute several products between other work. A task is one tile of
 * C and one split of k. The order in which the terms of a number are added depends on the product alone. So no launch
 * shape changes a bit, and neither does the choice of the tiles that a block computes.
 *
 * The threads of a block compute a tile together (tile_block.h). A thread that is a block by itself has a serial body
 * (tile_serial.h).
 */
#pragma once

#include "kernels/args_learn.h"
#include "kernels/learn/bias_activation.h"
#include "kernels/learn/layer_backward.h"
#include "kernels/target/thread.h"

/* Sides of a tile. The serial body has tall tiles, since it transposes a panel of B for each of them. */
enum {
    GPUR_LARGE_SIDE = GPUR_WARP == 32  ? 64
                      : GPUR_WARP == 1 ? 32
                                       : 16,
    GPUR_SMALL_SIDE = GPUR_WARP == 1 ? 32 : GPUR_LARGE_SIDE / 2,
    GPUR_SERIAL_ROWS = 128,
};

/* One task of a matrix product. */
typedef struct gpur_tile {
    const gpur_tile_gemm *gemm;
    int32_t row, column;         /* where it begins in C */
    int32_t rows, columns;       /* its size within C: at most the tile's sides */
    int32_t k_split, k, k_count; /* which split of k, where it begins, and its length */
} gpur_tile;

GPUR_FN int32_t gpur_tile_side(const gpur_tile_gemm *p)
{
    return p->large ? GPUR_LARGE_SIDE : GPUR_SMALL_SIDE;
}

GPUR_FN int32_t gpur_tile_height(const gpur_tile_gemm *p)
{
    return gpur_is_parallel() ? gpur_tile_side(p) : GPUR_SERIAL_ROWS;
}

GPUR_FN int32_t gpur_tiles_down(const gpur_tile_gemm *p)
{
    return (p->m + gpur_tile_height(p) - 1) / gpur_tile_height(p);
}

GPUR_FN int32_t gpur_tiles_across(const gpur_tile_gemm *p)
{
    return (p->n + gpur_tile_side(p) - 1) / gpur_tile_side(p);
}

GPUR_FN int64_t gpur_tile_gemm_tasks(const gpur_tile_gemm *p)
{
    return (int64_t)gpur_tiles_down(p) * gpur_tiles_across(p) * p->k_splits;
}

GPUR_FN int32_t gpur_min_i32(int32_t x, int32_t limit)
{
    return x < limit ? x : limit;
}

/* Task number `task` of a product. */
GPUR_FN gpur_tile gpur_tile_of(const gpur_tile_gemm *p, int64_t task)
{
    const int32_t across = gpur_tiles_across(p), tiles = gpur_tiles_down(p) * across;
    const int32_t split = (int32_t)(task / tiles), index = (int32_t)(task - (int64_t)split * tiles);
    const gpur_span k = gpur_share_of(p->k, split, p->k_splits);
    gpur_tile tile;
    tile.gemm = p;
    tile.row = index / across * gpur_tile_height(p);
    tile.column = index % across * gpur_tile_side(p);
    tile.rows = gpur_min_i32(p->m - tile.row, gpur_tile_height(p));
    tile.columns = gpur_min_i32(p->n - tile.column, gpur_tile_side(p));
    tile.k_split = split;
    tile.k = (int32_t)k.first;
    tile.k_count = (int32_t)(k.last - k.first);
    return tile;
}

/* Element (i, k) of an operand. */
GPUR_FN float gpur_gemm_operand_at(const gpur_gemm_operand *f, int64_t i, int64_t k)
{
    const int64_t at = i * f->row + k * f->step;
    float x = f->x[at];
    for (int32_t split = 1; split < f->k_splits; split++)
        x += f->x[split * f->k_split_step + at];
    return f->y ? x * gpur_activation_derivative(f->y[at], f->activation) : x;
}

/* Stores a finished sum: row i, column j of the tile. Adds the bias and applies the activation, if there are any. */
GPUR_FN void gpur_tile_store(const gpur_tile *tile, int32_t i, int32_t j, float sum)
{
    const gpur_tile_gemm *const p = tile->gemm;
    const int64_t row = tile->row + i, column = tile->column + j;
    const float x = p->bias ? gpur_activate(sum + p->bias[column], p->activation) : sum;
    p->c[tile->k_split * p->c_split + row * p->c_row + column] = x;
}

/* Whether this tile also computes the sums of a's rows over its split of k: the first of a row of tiles does. */
GPUR_FN int gpur_tile_has_sums(const gpur_tile *tile)
{
    return tile->gemm->a_sums && tile->column == 0;
}

GPUR_FN void gpur_tile_store_sum(const gpur_tile *tile, int32_t i, float sum)
{
    const gpur_tile_gemm *const p = tile->gemm;
    p->a_sums[tile->k_split * p->c_split + tile->row + i] = sum;
}
