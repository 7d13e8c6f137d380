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

/* Sides of a tile, as powers of two: 1 << 6 is 64. The serial body has tall tiles, since it transposes a panel of B for
 * each of them. */
enum {
    GPUR_LARGE_SHIFT = GPUR_WARP == 32  ? 6
                       : GPUR_WARP == 1 ? 5
                                        : 4,
    GPUR_SMALL_SHIFT = GPUR_WARP == 1 ? 5 : GPUR_LARGE_SHIFT - 1,
    GPUR_SERIAL_SHIFT = 7,
    GPUR_LARGE_SIDE = 1 << GPUR_LARGE_SHIFT,
    GPUR_SMALL_SIDE = 1 << GPUR_SMALL_SHIFT,
    GPUR_SERIAL_ROWS = 1 << GPUR_SERIAL_SHIFT,
};

/* One task of a matrix product. */
typedef struct gpur_tile {
    const gpur_tile_gemm *gemm;
    int32_t row, column;         /* where it begins in C */
    int32_t rows, columns;       /* its size within C: at most the tile's sides */
    int32_t k_split, k, k_count; /* which split of k, where it begins, and its length */
} gpur_tile;

/* A block finds its tile before it can load anything, so this counts by shifts: a division takes longer than a barrier.
 */
GPUR_FN int32_t gpur_tile_width_shift(const gpur_tile_gemm *p)
{
    return p->large ? GPUR_LARGE_SHIFT : GPUR_SMALL_SHIFT;
}

GPUR_FN int32_t gpur_tile_height_shift(const gpur_tile_gemm *p)
{
    return gpur_is_parallel() ? gpur_tile_width_shift(p) : GPUR_SERIAL_SHIFT;
}

GPUR_FN int32_t gpur_tiles_of(int32_t n, int32_t shift)
{
    return (n + (1 << shift) - 1) >> shift;
}

GPUR_FN int32_t gpur_tiles_of_split(const gpur_tile_gemm *p)
{
    return gpur_tiles_of(p->m, gpur_tile_height_shift(p)) * gpur_tiles_of(p->n, gpur_tile_width_shift(p));
}

GPUR_FN int32_t gpur_tile_gemm_tasks(const gpur_tile_gemm *p)
{
    return gpur_tiles_of_split(p) * p->k_splits;
}

GPUR_FN int32_t gpur_min_i32(int32_t x, int32_t limit)
{
    return x < limit ? x : limit;
}

/* Task number `task` of a product. */
GPUR_FN gpur_tile gpur_tile_of(const gpur_tile_gemm *p, int32_t task)
{
    const int32_t down = gpur_tile_height_shift(p), across = gpur_tile_width_shift(p);
    const uint32_t tiles = (uint32_t)gpur_tiles_of_split(p), columns = (uint32_t)gpur_tiles_of(p->n, across);
    const uint32_t split = p->k_splits == 1 ? 0 : (uint32_t)task / tiles, index = (uint32_t)task - split * tiles;
    const uint32_t row = columns == 1 ? index : index / columns;
    gpur_tile tile;
    tile.gemm = p;
    tile.row = (int32_t)row << down;
    tile.column = (int32_t)(index - row * columns) << across;
    tile.rows = gpur_min_i32(p->m - tile.row, 1 << down);
    tile.columns = gpur_min_i32(p->n - tile.column, 1 << across);
    tile.k_split = (int32_t)split;
    tile.k = (int32_t)split * p->k_size;
    tile.k_count = gpur_min_i32(p->k - tile.k, p->k_size);
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

/* Where row i, column j of the tile is in C. */
GPUR_FN float *gpur_tile_at(const gpur_tile *tile, int32_t i, int32_t j)
{
    const gpur_tile_gemm *const p = tile->gemm;
    return p->c + tile->k_split * p->c_split + (tile->row + i) * p->c_row + tile->column + j;
}

/* Stores a finished sum: row i, column j of the tile. Adds the column's bias and applies the activation, if there are
 * any. */
GPUR_FN void gpur_tile_store(const gpur_tile *tile, int32_t i, int32_t j, float sum, float bias)
{
    const gpur_tile_gemm *const p = tile->gemm;
    *gpur_tile_at(tile, i, j) = p->bias ? gpur_activate(sum + bias, p->activation) : sum;
}

/* The bias of column j of the tile. */
GPUR_FN float gpur_tile_bias(const gpur_tile *tile, int32_t j)
{
    return tile->gemm->bias && j < tile->columns ? tile->gemm->bias[tile->column + j] : 0.0f;
}

/* Whether this tile also computes the sums of a's rows over its split of k: the first of a row of tiles does. */
GPUR_FN int gpur_tile_has_sums(const gpur_tile *tile)
{
    return tile->gemm->a_sums && tile->column == 0;
}

/* Where the sum of row i is. */
GPUR_FN float *gpur_tile_sum_at(const gpur_tile *tile, int32_t i)
{
    const gpur_tile_gemm *const p = tile->gemm;
    return p->a_sums + tile->k_split * p->c_split + tile->row + i;
}
