/* SPDX-License-Identifier: MIT */
#ifndef GPUR_SCATTER_H
#define GPUR_SCATTER_H

#include "args_replay.h"
#include "clip.h"
#include "field_copy.h"
#include "value_copy.h"

/* The ring's row for row n of the block. */
GPUR_FN unsigned char *gpur_scatter_row(const gpur_scatter_args *a, int64_t n)
{
    const int64_t slot = a->first_slot + n;
    return a->ring + (slot < a->capacity ? slot : slot - a->capacity) * a->pitch;
}

GPUR_FN void gpur_scatter_units(gpur_place at, const gpur_scatter_args *a, int64_t first, int32_t rows)
{
    for (int32_t t = at.thread; t < rows * a->units; t += at.threads) {
        const int32_t i = t / a->units;
        const gpur_unit_place unit = gpur_find_unit(a->copies, a->copy_count, t - i * a->units);
        gpur_move_unit(gpur_scatter_row(a, first + i) + unit.copy->offset + unit.byte,
                       unit.copy->array + (first + i) * unit.copy->array_pitch + unit.byte, unit.copy->shift);
    }
}

/* Rows that lie in one piece, for one thread: field by field, while the tile's lines of the ring are at hand. */
GPUR_FN void gpur_scatter_piece(const gpur_scatter_args *a, int64_t first, int64_t rows)
{
    unsigned char *const row = gpur_scatter_row(a, first);
    for (int32_t c = 0; c < a->copy_count; c++) {
        const gpur_field_copy *const copy = &a->copies[c];
        gpur_column column;
        column.to = row + copy->offset, column.to_pitch = a->pitch;
        column.from = copy->array + first * copy->array_pitch, column.from_pitch = copy->array_pitch;
        column.bytes = (int64_t)copy->units << copy->shift;
        gpur_move_column(&column, rows);
    }
}

/* Rows of several lines go one by one, so that the ring is written from line to line; a piece ends with the ring. */
GPUR_FN void gpur_scatter_values(const gpur_scatter_args *a, int64_t first, int32_t rows)
{
    const int64_t most = a->pitch < 256 ? rows : 1, ring_end = a->capacity - a->first_slot;
    for (int64_t done = 0, n; done < rows; done += n) {
        const int64_t to_end = ring_end - (first + done);
        n = most < rows - done ? most : rows - done;
        n = to_end > 0 && to_end < n ? to_end : n;
        gpur_scatter_piece(a, first + done, n);
    }
}

GPUR_FN void gpur_scatter_rewards(gpur_place at, const gpur_scatter_args *a, int64_t first, int32_t rows)
{
    for (int32_t i = at.thread; i < rows; i += at.threads) {
        float reward;
        memcpy(&reward, a->rewards + (first + i) * (int64_t)sizeof reward, sizeof reward);
        reward = gpur_clip(reward, a->reward_clip);
        memcpy(gpur_scatter_row(a, first + i) + a->reward_offset, &reward, sizeof reward);
    }
}

GPUR_KERNEL(scatter)
{
    const gpur_span tiles = gpur_block_rows(at, (a->rows + a->tile - 1) / a->tile);
    for (int64_t tile = tiles.first; tile < tiles.last; tile += tiles.step) {
        const int64_t first = tile * a->tile;
        const int32_t rows = (int32_t)(a->rows - first < a->tile ? a->rows - first : a->tile);
        if (gpur_strided())
            gpur_scatter_units(at, a, first, rows);
        else
            gpur_scatter_values(a, first, rows);
        if (a->rewards)
            gpur_scatter_rewards(at, a, first, rows);
    }
}

#endif
