/* SPDX-License-Identifier: MIT */
/* Samples rows of the window and copies their fields into a batch [Parr 2018], or gathers rows by id. Arguments and
 * shapes: gpur_gather_args. A GPU's block copies a row tile at a time; the serial body is in
 * kernels/cpu/gather_serial.h. */
#pragma once

#include "kernels/lib/sample_rows.h"
#include "kernels/replay/field_copy.h"
#include "kernels/cpu/gather_serial.h"

/* A row tile: rows of the batch that a block samples and copies together, or a part of the units of one large row. */
typedef struct gpur_gather_tile {
    int64_t first;
    int32_t rows;
    int32_t first_unit, last_unit; /* of the units of all of its rows */
} gpur_gather_tile;

/* Parts that a row is copied in. A row is divided if there are more blocks than rows, and if then no thread is without
 * a unit. */
GPUR_FN int32_t gpur_parts_per_row(gpur_thread at, const gpur_gather_args *a)
{
    if (at.blocks < 2 * a->batch || a->units < 2 * at.threads)
        return 1;
    const int64_t blocks = at.blocks / a->batch, most = a->units / at.threads;
    return (int32_t)(blocks < most ? blocks : most);
}

GPUR_FN gpur_gather_tile gpur_gather_tile_of(const gpur_gather_args *a, int64_t tile, int32_t height, int32_t parts)
{
    const int64_t first = (parts > 1 ? tile / parts : tile) * height, left = a->batch - first;
    gpur_gather_tile t;
    t.first = first;
    t.rows = (int32_t)(left < height ? left : height);
    t.first_unit = 0, t.last_unit = t.rows * a->units;
    if (parts > 1) {
        const gpur_span units = gpur_share_of(a->units, tile % parts, parts);
        t.first_unit = (int32_t)units.first, t.last_unit = (int32_t)units.last;
    }
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
    for (int32_t t = tile.first_unit + at.thread; t < tile.last_unit; t += GPUR_UNITS_PER_THREAD * at.threads) {
        const gpur_tile_units units =
            gpur_tile_units_of(a->copies, a->copy_count, a->units, t, tile.last_unit, at.threads);
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
    for (int32_t i = at.thread; tile.first_unit == 0 && i < tile.rows; i += at.threads)
        gpur_gather_extras(state, a, tile.first + i, slots[i]);
}

/* The parallel body samples the slots of the next tile into the other half of `slots` while it copies a tile, so that
 * a tile needs a single barrier. */
GPUR_KERNEL(gather)
{
    GPUR_SHARED(int64_t, slots, 2 * GPUR_MAX_TILE_ROWS);
    const int32_t height = gpur_rows_per_tile(at, a->batch, a->tile_rows);
    const int32_t parts = gpur_parts_per_row(at, a);
    const gpur_span tiles = gpur_block_rows(at, (a->batch + height - 1) / height * parts);
    gpur_sample_state state;
    int64_t *mine = slots, *next = slots + GPUR_MAX_TILE_ROWS;
    gpur_sample_begin(&state, a);
    if (!gpur_is_parallel()) {
        gpur_gather_serial(at, &state, a);
        return;
    }
    for (int64_t tile = tiles.first - tiles.step; tile < tiles.last; tile += tiles.step) {
        if (tile + tiles.step < tiles.last)
            gpur_sample_tile(at, &state, a, gpur_gather_tile_of(a, tile + tiles.step, height, parts), next);
        if (tile >= tiles.first)
            gpur_gather_rows(at, &state, a, gpur_gather_tile_of(a, tile, height, parts), mine);
        gpur_barrier(at);
        int64_t *const filled = next;
        next = mine, mine = filled;
    }
}
