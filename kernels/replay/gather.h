/* SPDX-License-Identifier: MIT */
/* Samples rows of the window and copies their fields into a batch [Parr 2018], or gathers rows by id. Arguments and
 * shapes: gpur_gather_args. A GPU's warp copies whole rows if they are short; a block copies a row tile of longer ones
 * at a time. The serial body is in kernels/cpu/gather_serial.h. */
#pragma once

#include "kernels/lib/sample_rows.h"
#include "kernels/replay/field_copy.h"
#include "kernels/replay/warp_rows.h"
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
        gpur_gather_extras(state, a, tile.first + i, slots[i], gpur_gather_is_terminal(a, slots[i]));
}

/* Copies row tiles. It samples the slots of the next tile into the other half of `slots` while it copies a tile, so
 * that a tile needs a single barrier. */
GPUR_FN void gpur_gather_tiles(gpur_thread at, const gpur_sample_state *state, const gpur_gather_args *a,
                               int32_t height, int32_t parts)
{
    GPUR_SHARED(int64_t, slots, 2 * GPUR_MAX_TILE_ROWS);
    const gpur_span tiles = gpur_block_rows(at, (a->batch + height - 1) / height * parts);
    int64_t *mine = slots, *next = slots + GPUR_MAX_TILE_ROWS;
    for (int64_t tile = tiles.first - tiles.step; tile < tiles.last; tile += tiles.step) {
        if (tile + tiles.step < tiles.last)
            gpur_sample_tile(at, state, a, gpur_gather_tile_of(a, tile + tiles.step, height, parts), next);
        if (tile >= tiles.first)
            gpur_gather_rows(at, state, a, gpur_gather_tile_of(a, tile, height, parts), mine);
        gpur_barrier(at);
        int64_t *const filled = next;
        next = mine, mine = filled;
    }
}

/* Copies whole rows by warps, without a barrier. A lane draws a row of the round, and writes its id, weight and
 * discount; all lanes copy each row together. */
GPUR_FN void gpur_gather_by_warps(gpur_thread at, const gpur_sample_state *state, const gpur_gather_args *a,
                                  const gpur_lane_units *units, int shift)
{
    const gpur_span rounds = gpur_warp_rows(at, gpur_rounds_of(a->batch, shift));
    for (int64_t n = rounds.first; n < rounds.last; n += rounds.step) {
        const gpur_warp_round round = gpur_round_of(a->batch, shift, n);
        const int64_t b = round.first + gpur_lane(at);
        const int is_mine = gpur_lane(at) < round.rows;
        const int64_t slot = is_mine ? gpur_sample_row(state, a, b) : -1;
        const int is_terminal = gpur_gather_is_terminal(a, slot); /* loaded while the row is */
        gpur_copy_round(at, a, units, round, slot);
        if (is_mine)
            gpur_gather_extras(state, a, b, slot, is_terminal);
    }
}

/* What follows from the arguments of a gather: of one by warps, or of one in row tiles. */
typedef struct gpur_gather_prepared {
    gpur_lane_units units;
    int shift;
    int32_t height, parts;
} gpur_gather_prepared;

GPUR_FN int gpur_gather_is_by_warps(const gpur_gather_args *a)
{
    return gpur_is_parallel() && !GPUR_DRAWS_ARE_SEPARATE && a->units <= GPUR_WARP_UNITS;
}

GPUR_FN gpur_gather_prepared gpur_gather_prepare(gpur_thread at, const gpur_gather_args *a)
{
    gpur_gather_prepared prepared;
    if (gpur_gather_is_by_warps(a)) {
        gpur_lane_units_of(at, a, &prepared.units);
        prepared.shift = gpur_round_shift(at, a->batch);
    } else if (gpur_is_parallel()) {
        prepared.height = gpur_rows_per_tile(at, a->batch, a->tile_rows);
        prepared.parts = gpur_parts_per_row(at, a);
    } else {
        memset(&prepared, 0, sizeof prepared); /* the serial body reads none of it */
    }
    return prepared;
}

/* The whole gather by blocks alone, for the fused step: its threads have no registers left for more. */
GPUR_FN void gpur_gather_by_blocks(gpur_thread at, const gpur_gather_args *a)
{
    gpur_sample_state state;
    gpur_sample_begin(&state, a);
    if (gpur_is_parallel())
        gpur_gather_tiles(at, &state, a, gpur_rows_per_tile(at, a->batch, a->tile_rows), gpur_parts_per_row(at, a));
    else
        gpur_gather_serial(at, &state, a);
}

GPUR_KERNEL_PREPARED(gather, 1024)
{
    gpur_sample_state state;
    gpur_sample_begin(&state, a);
    if (!gpur_is_parallel())
        gpur_gather_serial(at, &state, a);
    else if (gpur_gather_is_by_warps(a))
        gpur_gather_by_warps(at, &state, a, &prepared->units, prepared->shift);
    else
        gpur_gather_tiles(at, &state, a, prepared->height, prepared->parts);
}
