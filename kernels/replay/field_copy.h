/* SPDX-License-Identifier: MIT */
/* Copies fields between rows and arrays. On a GPU the threads of a block share the units of a row tile; the serial
 * bodies in kernels/cpu/ copy value by value. */
#pragma once

#include "kernels/args_replay.h"
#include "kernels/target/thread.h"

/* Units that a thread copies at a time: it loads all of them before it stores the first. */
enum { GPUR_UNITS_PER_THREAD = 4 };

/* Loads a unit of 1 << shift bytes into the first bytes of the result; zeros if there is nothing to read. Each size
 * is loaded as the register that it ends up in, since a conversion would wait for the load. */
GPUR_FN gpur_u32x4 gpur_load_unit(const unsigned char *from, int32_t shift)
{
    gpur_u32x4 unit = {{0, 0, 0, 0}};
    uint16_t half;
    if (!from)
        return unit;
    if (shift == 4) {
        memcpy(&unit, __builtin_assume_aligned(from, 16), 16);
    } else if (shift == 3) {
        memcpy(&unit, __builtin_assume_aligned(from, 8), 8);
    } else if (shift == 2) {
        memcpy(&unit, __builtin_assume_aligned(from, 4), 4);
    } else if (shift == 1) {
        memcpy(&half, __builtin_assume_aligned(from, 2), 2);
        unit.v[0] = half;
    } else {
        unit.v[0] = *from;
    }
    return unit;
}

GPUR_FN void gpur_store_unit(unsigned char *to, gpur_u32x4 unit, int32_t shift)
{
    const uint16_t half = (uint16_t)unit.v[0];
    if (shift == 4)
        memcpy(__builtin_assume_aligned(to, 16), &unit, 16);
    else if (shift == 3)
        memcpy(__builtin_assume_aligned(to, 8), &unit, 8);
    else if (shift == 2)
        memcpy(__builtin_assume_aligned(to, 4), &unit, 4);
    else if (shift == 1)
        memcpy(__builtin_assume_aligned(to, 2), &half, 2);
    else
        *to = (unsigned char)unit.v[0];
}

/* Makes every byte other than 0 a 1. Each shift ORs the upper bits of a byte into its lower ones, until bit 0 is the
 * OR of all eight. Bits that the shifts move over from the next byte reach only bits 1 to 7, which are then cleared. */
GPUR_FN gpur_u32x4 gpur_unit_normalize_flags(gpur_u32x4 unit)
{
    for (int i = 0; i < 4; i++) {
        uint32_t x = unit.v[i];
        x |= x >> 4;
        x |= x >> 2;
        x |= x >> 1;
        unit.v[i] = x & 0x01010101u;
    }
    return unit;
}

/* Destination and source of one unit. */
typedef struct gpur_unit_copy {
    unsigned char *to;         /* NULL: there is no such unit */
    const unsigned char *from; /* NULL: zeros */
    int32_t shift;
} gpur_unit_copy;

GPUR_FN void gpur_load_units(gpur_u32x4 *units, const gpur_unit_copy *moves)
{
    for (int n = 0; n < GPUR_UNITS_PER_THREAD; n++)
        units[n] = gpur_load_unit(moves[n].from, moves[n].shift);
}

GPUR_FN void gpur_store_units(const gpur_unit_copy *moves, const gpur_u32x4 *units)
{
    for (int n = 0; n < GPUR_UNITS_PER_THREAD; n++)
        if (moves[n].to)
            gpur_store_unit(moves[n].to, units[n], moves[n].shift);
}

/* Units of a row tile: each is a unit of one row's value of one field. */
typedef struct gpur_tile_units {
    int32_t row[GPUR_UNITS_PER_THREAD];  /* in the tile; -1: there is no such unit */
    int32_t copy[GPUR_UNITS_PER_THREAD]; /* the field's index in the list of copies */
    int64_t byte[GPUR_UNITS_PER_THREAD]; /* in the value */
} gpur_tile_units;

/* Finds units first, first + step, ... below `last`, of a tile whose rows have `row_units` units each. */
GPUR_FN gpur_tile_units gpur_tile_units_of(const gpur_field_copy *copies, int32_t copy_count, int32_t row_units,
                                           int32_t first, int32_t last, int32_t step)
{
    gpur_tile_units found;
    int32_t unit[GPUR_UNITS_PER_THREAD];
    for (int n = 0; n < GPUR_UNITS_PER_THREAD; n++) {
        const int32_t t = first + n * step, row = t / row_units;
        found.row[n] = t < last ? row : -1;
        found.copy[n] = 0;
        unit[n] = t - row * row_units;
    }
    for (int32_t c = 1; c < copy_count; c++)
        for (int n = 0; n < GPUR_UNITS_PER_THREAD; n++)
            found.copy[n] += unit[n] >= copies[c].first_unit;
    for (int n = 0; n < GPUR_UNITS_PER_THREAD; n++) {
        const gpur_field_copy *const copy = &copies[found.copy[n]];
        found.byte[n] = (int64_t)(unit[n] - copy->first_unit) << copy->shift;
    }
    return found;
}

/* Rows of a row tile: at most `limit`, and fewer if every block then gets some. */
GPUR_FN int32_t gpur_rows_per_tile(gpur_thread at, int64_t rows, int32_t limit)
{
    const int64_t even = rows <= at.blocks ? 1 : (rows + at.blocks - 1) / at.blocks;
    return even < limit ? (int32_t)even : limit;
}
