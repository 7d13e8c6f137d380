/* SPDX-License-Identifier: MIT */
/* Samples rows of the window and copies their fields into a batch [Parr 2018], or gathers rows by id. Arguments and
 * shapes: gpur_gather_args. A GPU's block copies a row tile at a time; the serial body is in
 * kernels/cpu/gather_serial.h. */
#pragma once

#include "kernels/lib/sample_rows.h"
#include "kernels/replay/field_copy.h"
#include "kernels/cpu/gather_serial.h"

/* A row tile: rows of the batch that a block samples and copies together. */
typedef struct gpur_gather_tile {
    int64_t first;
    int32_t rows;
} gpur_gather_tile;

GPUR_FN gpur_gather_tile gpur_gather_tile_of(const gpur_gather_args *a, int64_t tile, int32_t height)
{
    gpur_gather_tile t;
    const int64_t left = a->batch - tile * height;
    t.first = tile * height;
    t.rows = (int32_t)(left < height ? left : height);
    return t;
}

/* Samples the tile's rows: writes their slots, or -1. */
GPUR_FN void gpur_sample_tile(gpur_thread at, const gpur_sample_state *state, const gpur_gather_args *a,
                              gpur_gather_tile tile, int64_t *slots)
{
    for (int32_t i = at.thread; i < tile.rows; i += at.threads)
        slots[i] = gpur_sample_row(state, a, tile.first + i);
}

GPUR_FN void gpur_gather_units(gpur_thread at, const gpur_gather_args *a, gpur_gather_tile tile, const int64_t *slots)
{
    for (int32_t t = at.thread; t < tile.rows * a->units; t += GPUR_UNITS_PER_THREAD * at.threads) {
        const gpur_tile_units units = gpur_tile_units_of(a->copies, a->copy_count, a->units, tile.rows, t, at.threads);
        gpur_unit_copy moves[GPUR_UNITS_PER_THREAD];
        gpur_u32x4 values[GPUR_UNITS_PER_THREAD];
        for (int n = 0; n < GPUR_UNITS_PER_THREAD; n++) {
            const gpur_field_copy *const copy = &a->copies[units.copy[n]];
            const int64_t slot = units.row[n] < 0 ? -1 : slots[units.row[n]];
            moves[n].shift = copy->shift;
            moves[n].from =
                slot < 0 ? (const unsigned char *)0 : a->ring + slot * a->pitch + copy->offset + units.byte[n];
            moves[n].to = units.row[n] < 0
                              ? (unsigned char *)0
                              : copy->array + (tile.first + units.row[n]) * copy->array_pitch + units.byte[n];
        }
        gpur_load_units(values, moves);
        gpur_store_units(moves, values);
    }
}

/* Fields first: they load into the cache what gpur_gather_extras reads of a row. */
GPUR_FN void gpur_gather_rows(gpur_thread at, const gpur_sample_state *state, const gpur_gather_args *a,
                              gpur_gather_tile tile, const int64_t *slots)
{
    gpur_gather_units(at, a, tile, slots);
    for (int32_t i = at.thread; i < tile.rows; i += at.threads)
        gpur_gather_extras(state, a, tile.first + i, slots[i]);
}

/* The parallel body samples the slots of the next tile into the other half of `slots` while it copies a tile, so that
 * a tile needs a single barrier. */
GPUR_KERNEL_OF(gather, 512)
{
    GPUR_SHARED(int64_t, slots, 2 * GPUR_MAX_TILE_ROWS);
    const int32_t height = gpur_rows_per_tile(at, a->batch, a->tile_rows);
    const gpur_span tiles = gpur_block_rows(at, (a->batch + height - 1) / height);
    gpur_sample_state state;
    int64_t *mine = slots, *next = slots + GPUR_MAX_TILE_ROWS;
    gpur_sample_begin(&state, a);
    if (!gpur_is_parallel()) {
        gpur_gather_serial(at, &state, a);
        return;
    }
    for (int64_t tile = tiles.first - tiles.step; tile < tiles.last; tile += tiles.step) {
        if (tile + tiles.step < tiles.last)
            gpur_sample_tile(at, &state, a, gpur_gather_tile_of(a, tile + tiles.step, height), next);
        if (tile >= tiles.first)
            gpur_gather_rows(at, &state, a, gpur_gather_tile_of(a, tile, height), mine);
        gpur_barrier(at);
        int64_t *const filled = next;
        next = mine, mine = filled;
    }
}
