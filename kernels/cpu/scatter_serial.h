/* SPDX-License-Identifier: MIT */
/*
 * Serial scatter: it writes a row tile at a time, field by field. A small ring is written directly. For a large ring
 * a tile is assembled in the first-level cache and then written with non-temporal stores, so that the ring's lines
 * are not fetched first. If a row is longer than a tile, its long values are written directly, with non-temporal
 * stores.
 */
#pragma once

#include "kernels/lib/clip.h"
#include "kernels/cpu/copy_nontemporal.h"
#include "kernels/cpu/copy_value.h"

/* The row of the ring for row n of the arrays. */
GPUR_FN unsigned char *gpur_scatter_row(const gpur_scatter_args *a, int64_t n)
{
    const int64_t to = a->first_slot + n, place = to < a->capacity ? to : to - a->capacity;
    return a->ring + (a->slots ? a->slots[place] : place) * a->pitch;
}

/* Copies all fields of `rows` rows of the arrays, from row `first` on, to contiguous rows from `row` on. */
GPUR_FN void gpur_scatter_columns(const gpur_scatter_args *a, int64_t first, int64_t rows, unsigned char *row)
{
    for (int32_t c = 0; c < a->copy_count; c++) {
        const gpur_field_copy *const copy = &a->copies[c];
        gpur_column column;
        column.to = row + copy->offset, column.to_pitch = a->pitch;
        column.from = copy->array + first * copy->array_pitch, column.from_pitch = copy->array_pitch;
        column.bytes = (int64_t)copy->units << copy->shift;
        if (copy->flags)
            gpur_copy_flags(&column, rows);
        else
            gpur_copy_column(&column, rows);
    }
}

/* How many of `rows` rows from `first` on are contiguous in the ring. */
GPUR_FN int64_t gpur_scatter_contiguous(const gpur_scatter_args *a, int64_t first, int64_t rows)
{
    const int64_t to_end = a->capacity - a->first_slot - first;
    if (a->slots)
        return 1;
    return to_end > 0 && to_end < rows ? to_end : rows;
}

/* Writes directly into the ring. Rows of several cache lines are copied one by one, so that the ring's lines are
 * written in order. */
GPUR_FN void gpur_scatter_direct(const gpur_scatter_args *a, int64_t first, int64_t last)
{
    const int64_t limit = a->pitch < 256 ? a->tile_rows : 1;
    for (int64_t n; first < last; first += n) {
        n = gpur_scatter_contiguous(a, first, limit < last - first ? limit : last - first);
        gpur_scatter_columns(a, first, n, gpur_scatter_row(a, first));
    }
}

/* Writes by way of a tile. Bytes of a row that no field covers are written as zeros. */
GPUR_FN void gpur_scatter_nt(const gpur_scatter_args *a, int64_t first, int64_t last)
{
    uint64_t tile[GPUR_TILE_BYTES / sizeof(uint64_t)];
    const int64_t rows = last - first < a->tile_rows ? last - first : a->tile_rows;
    memset(tile, 0, (size_t)(rows * a->pitch));
    for (int64_t n; first < last; first += n) {
        n = gpur_scatter_contiguous(a, first, rows < last - first ? rows : last - first);
        gpur_scatter_columns(a, first, n, (unsigned char *)tile);
        gpur_copy_lines_nt(gpur_scatter_row(a, first), (const unsigned char *)tile, n * a->pitch);
    }
    gpur_nt_fence();
}

/* Writes one row that is longer than a tile. Its long values are copied with non-temporal stores, one by one. */
GPUR_FN void gpur_scatter_long_row(const gpur_scatter_args *a, int64_t n)
{
    unsigned char *const row = gpur_scatter_row(a, n);
    for (int32_t c = 0; c < a->copy_count; c++) {
        const gpur_field_copy *const copy = &a->copies[c];
        const int64_t bytes = (int64_t)copy->units << copy->shift;
        const unsigned char *const from = copy->array + n * copy->array_pitch;
        const gpur_column flags = {row + copy->offset, from, 0, 0, bytes};
        if (copy->flags)
            gpur_copy_flags(&flags, 1);
        else if (bytes >= GPUR_LONG_VALUE)
            gpur_memcpy_nt(row + copy->offset, from, bytes);
        else
            gpur_copy_value(row + copy->offset, from, bytes);
    }
}

/* Writes the clipped reward of row n. */
GPUR_FN void gpur_scatter_reward(const gpur_scatter_args *a, int64_t n)
{
    float reward;
    memcpy(&reward, a->rewards + n * (int64_t)sizeof reward, sizeof reward);
    reward = gpur_clip(reward, a->reward_clip);
    memcpy(gpur_scatter_row(a, n) + a->reward_offset, &reward, sizeof reward);
}

/* The serial body: writes this block's share of the rows. */
GPUR_FN void gpur_scatter_serial(gpur_thread at, const gpur_scatter_args *a)
{
    const gpur_span span = gpur_block_rows(at, a->rows);
    if (!a->nontemporal)
        gpur_scatter_direct(a, span.first, span.last);
    else if (a->pitch <= GPUR_TILE_BYTES)
        gpur_scatter_nt(a, span.first, span.last);
    else
        for (int64_t n = span.first; n < span.last; n++)
            gpur_scatter_long_row(a, n);
    for (int64_t n = span.first; a->rewards && n < span.last; n++)
        gpur_scatter_reward(a, n);
}
