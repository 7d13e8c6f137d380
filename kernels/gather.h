/* SPDX-License-Identifier: MIT */
#ifndef GPUR_GATHER_H
#define GPUR_GATHER_H

#include "draw_rows.h"
#include "field_copy.h"
#include "gather_alone.h"

GPUR_FN int32_t gpur_tile_rows_of(const gpur_gather_args *a, int64_t tile)
{
    const int64_t left = a->batch - tile * a->tile;
    return (int32_t)(left < a->tile ? left : a->tile);
}

/* Draws the tile's rows into `slots`. */
GPUR_FN void gpur_draw_tile(gpur_place at, const gpur_draw *draw, const gpur_gather_args *a, int64_t tile,
                            int64_t *slots)
{
    const int64_t first = tile * a->tile;
    const int32_t rows = gpur_tile_rows_of(a, tile);
    for (int32_t i = at.thread; i < rows; i += at.threads)
        slots[i] = gpur_draw_row(draw, a, first + i);
}

GPUR_FN void gpur_gather_units(gpur_place at, const gpur_gather_args *a, int64_t first, int32_t rows,
                               const int64_t *slots)
{
    for (int32_t t = at.thread; t < rows * a->units; t += at.threads) {
        const int32_t i = t / a->units;
        const gpur_unit_place unit = gpur_find_unit(a->copies, a->copy_count, t - i * a->units);
        unsigned char *const to = unit.copy->array + (first + i) * unit.copy->array_pitch + unit.byte;
        if (slots[i] < 0)
            gpur_zero_unit(to, unit.copy->shift);
        else
            gpur_move_unit(to, a->ring + slots[i] * a->pitch + unit.copy->offset + unit.byte, unit.copy->shift);
    }
}

GPUR_FN void gpur_gather_tile(gpur_place at, const gpur_draw *draw, const gpur_gather_args *a, int64_t tile,
                              const int64_t *slots)
{
    const int64_t first = tile * a->tile;
    const int32_t rows = gpur_tile_rows_of(a, tile);
    for (int32_t i = at.thread; i < rows; i += at.threads)
        gpur_gather_extras(draw, a, first + i, slots[i]);
    gpur_gather_units(at, a, first, rows, slots);
}

/* On a GPU, slots are drawn one tile ahead, into the other half of `slots`, so that a tile needs one barrier. */
GPUR_KERNEL(gather)
{
    GPUR_SHARED(int64_t, slots, 2 * GPUR_TILE);
    const gpur_span tiles = gpur_block_rows(at, (a->batch + a->tile - 1) / a->tile);
    gpur_draw draw;
    int64_t *mine = slots, *next = slots + GPUR_TILE;
    gpur_draw_begin(&draw, a);
    if (!gpur_strided()) {
        gpur_gather_alone(at, &draw, a);
        return;
    }
    for (int64_t tile = tiles.first - tiles.step; tile < tiles.last; tile += tiles.step) {
        if (tile + tiles.step < tiles.last)
            gpur_draw_tile(at, &draw, a, tile + tiles.step, next);
        if (tile >= tiles.first)
            gpur_gather_tile(at, &draw, a, tile, mine);
        gpur_barrier(at);
        int64_t *const drawn = next;
        next = mine, mine = drawn;
    }
}

#endif
