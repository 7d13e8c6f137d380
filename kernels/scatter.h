/* SPDX-License-Identifier: MIT */
#ifndef GPUR_SCATTER_H
#define GPUR_SCATTER_H

#include "args_replay.h"
#include "field_copy.h"
#include "scatter_alone.h"

GPUR_FN void gpur_scatter_units(gpur_place at, const gpur_scatter_args *a, int64_t first, int32_t rows)
{
    for (int32_t t = at.thread; t < rows * a->units; t += at.threads) {
        const int32_t i = t / a->units;
        const gpur_unit_place unit = gpur_find_unit(a->copies, a->copy_count, t - i * a->units);
        unsigned char *const to = gpur_scatter_row(a, first + i) + unit.copy->offset + unit.byte;
        const unsigned char *const from = unit.copy->array + (first + i) * unit.copy->array_pitch + unit.byte;
        if (unit.copy->flags)
            gpur_move_flag_unit(to, from, unit.copy->shift);
        else
            gpur_move_unit(to, from, unit.copy->shift);
    }
}

GPUR_KERNEL(scatter)
{
    const gpur_span tiles = gpur_block_rows(at, (a->rows + a->tile - 1) / a->tile);
    if (!gpur_strided()) {
        gpur_scatter_alone(at, a);
        return;
    }
    for (int64_t tile = tiles.first; tile < tiles.last; tile += tiles.step) {
        const int64_t first = tile * a->tile;
        const int32_t rows = (int32_t)(a->rows - first < a->tile ? a->rows - first : a->tile);
        gpur_scatter_units(at, a, first, rows);
        for (int32_t i = at.thread; a->rewards && i < rows; i += at.threads)
            gpur_scatter_reward(a, first + i);
    }
}

#endif
