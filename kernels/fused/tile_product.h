/* SPDX-License-Identifier: MIT */
/*
 * Matrix products by tiles of C, for kernels that compute several products between other work. A task is one tile of
 * C and one split of k. The order in which the terms of a number are added depends on the product alone. So no launch
 * shape changes a bit, and neither does the choice of the tiles that a block computes.
 *
 * The threads of a block compute a tile together (tile_block.h). A thread that is a block by itself has a serial body
 * (tile_serial.h).
 */
#ifndef GPUR_KERNELS_FUSED_TILE_PRODUCT_H
#define GPUR_KERNELS_FUSED_TILE_PRODUCT_H

#include "kernels/args_learn.h"
#include "kernels/learn/bias_activation.h"
#include "kernels/learn/layer_backward.h"
#include "kernels/target/thread.h"

/* Sides of a tile. The serial body has tall tiles, since it transposes a panel of B for each of them. */
enum {
    GPUR_LARGE_SIDE = GPUR_WARP == 32 ? 64 : GPUR_WARP == 1 ? 32 : 16,
    GPUR_SMALL_SIDE = GPUR_WARP == 1 ? 32 : GPUR_LARGE_SIDE / 2,
    GPUR_ALONE_ROWS = 128,
};

/* One task of a matrix product. */
typedef struct gpur_tile {
    const gpur_product *product;
    int32_t row, column;      /* where it begins in C */
    int32_t rows, columns;    /* its size within C: at most the tile's sides */
    int32_t part, k, k_count; /* which split of k, where it begins, and its length */
} gpur_tile;

GPUR_FN int32_t gpur_tile_side(const gpur_product *p)
{
    return p->large ? GPUR_LARGE_SIDE : GPUR_SMALL_SIDE;
}

GPUR_FN int32_t gpur_tile_height(const gpur_product *p)
{
    return gpur_strided() ? gpur_tile_side(p) : GPUR_ALONE_ROWS;
}

GPUR_FN int32_t gpur_tiles_down(const gpur_product *p)
{
    return (p->m + gpur_tile_height(p) - 1) / gpur_tile_height(p);
}

GPUR_FN int32_t gpur_tiles_across(const gpur_product *p)
{
    return (p->n + gpur_tile_side(p) - 1) / gpur_tile_side(p);
}

GPUR_FN int64_t gpur_product_tasks(const gpur_product *p)
{
    return (int64_t)gpur_tiles_down(p) * gpur_tiles_across(p) * p->parts;
}

GPUR_FN int32_t gpur_at_most(int32_t x, int32_t most)
{
    return x < most ? x : most;
}

/* Task number `task` of a product. */
GPUR_FN gpur_tile gpur_tile_of(const gpur_product *p, int64_t task)
{
    const int32_t across = gpur_tiles_across(p), tiles = gpur_tiles_down(p) * across;
    const int32_t part = (int32_t)(task / tiles), place = (int32_t)(task - (int64_t)part * tiles);
    const gpur_span k = gpur_part_of(p->k, part, p->parts);
    gpur_tile tile;
    tile.product = p;
    tile.row = place / across * gpur_tile_height(p);
    tile.column = place % across * gpur_tile_side(p);
    tile.rows = gpur_at_most(p->m - tile.row, gpur_tile_height(p));
    tile.columns = gpur_at_most(p->n - tile.column, gpur_tile_side(p));
    tile.part = part;
    tile.k = (int32_t)k.first;
    tile.k_count = (int32_t)(k.last - k.first);
    return tile;
}

/* Element (i, k) of an operand. */
GPUR_FN float gpur_factor_at(const gpur_factor *f, int64_t i, int64_t k)
{
    const int64_t at = i * f->row + k * f->step;
    float x = f->x[at];
    for (int32_t part = 1; part < f->parts; part++)
        x += f->x[part * f->part_step + at];
    return f->y ? x * gpur_activation_slope(f->y[at], f->activation) : x;
}

/* Stores a finished sum: row i, column j of the tile. Adds the bias and applies the activation, if there are any. */
GPUR_FN void gpur_tile_put(const gpur_tile *tile, int32_t i, int32_t j, float sum)
{
    const gpur_product *const p = tile->product;
    const int64_t row = tile->row + i, column = tile->column + j;
    const float x = p->bias ? gpur_activate(sum + p->bias[column], p->activation) : sum;
    p->c[tile->part * p->c_part + row * p->c_row + column] = x;
}

/* Whether this tile also computes the sums of a's rows over its split of k: the first of a row of tiles does. */
GPUR_FN int gpur_tile_has_sums(const gpur_tile *tile)
{
    return tile->product->a_sums && tile->column == 0;
}

GPUR_FN void gpur_tile_put_sum(const gpur_tile *tile, int32_t i, float sum)
{
    const gpur_product *const p = tile->product;
    p->a_sums[tile->part * p->c_part + tile->row + i] = sum;
}

#endif
