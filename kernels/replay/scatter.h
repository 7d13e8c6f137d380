/* SPDX-License-Identifier: MIT */
/* Writes rows from arrays, one for each field, into the ring. Arguments and shapes: gpur_scatter_args. A GPU's block
 * writes a row tile at a time; the serial body is in kernels/cpu/scatter_serial.h. */
#pragma once

#include "kernels/args_replay.h"
#include "kernels/replay/field_copy.h"
#include "kernels/cpu/scatter_serial.h"

GPUR_FN void gpur_scatter_units(gpur_thread at, const gpur_scatter_args *a, int64_t first, int32_t rows)
{
    const int32_t last = rows * a->units;
    for (int32_t t = at.thread; t < last; t += GPUR_UNITS_PER_THREAD * at.threads) {
        const gpur_tile_units units = gpur_tile_units_of(a->copies, a->copy_count, a->units, t, last, at.threads);
        gpur_unit_copy moves[GPUR_UNITS_PER_THREAD];
        gpur_u32x4 values[GPUR_UNITS_PER_THREAD];
        for (int n = 0; n < GPUR_UNITS_PER_THREAD; n++) {
            const gpur_field_copy *const copy = &a->copies[units.copy[n]];
            const int64_t row = first + units.row[n];
            moves[n].shift = copy->shift;
            moves[n].from = moves[n].to = (unsigned char *)0;
            if (units.row[n] < 0)
                continue;
            moves[n].from = copy->array + row * copy->array_pitch + units.byte[n];
            moves[n].to = gpur_scatter_row(a, row) + copy->offset + units.byte[n];
        }
        gpur_load_units(values, moves);
        for (int n = 0; n < GPUR_UNITS_PER_THREAD; n++)
            if (a->copies[units.copy[n]].flags)
                values[n] = gpur_unit_normalize_flags(values[n]);
        gpur_store_units(moves, values);
    }
}

GPUR_KERNEL(scatter)
{
    const int32_t height = gpur_rows_per_tile(at, a->rows, a->tile_rows);
    const gpur_span tiles = gpur_block_rows(at, (a->rows + height - 1) / height);
    if (!gpur_is_parallel()) {
        gpur_scatter_serial(at, a);
        return;
    }
    for (int64_t tile = tiles.first; tile < tiles.last; tile += tiles.step) {
        const int64_t first = tile * height;
        const int32_t rows = (int32_t)(a->rows - first < height ? a->rows - first : height);
        gpur_scatter_units(at, a, first, rows);
        for (int32_t i = at.thread; a->rewards && i < rows; i += at.threads)
            gpur_scatter_reward(a, first + i);
    }
}
