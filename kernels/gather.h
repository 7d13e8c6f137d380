/* SPDX-License-Identifier: MIT */
#ifndef GPUR_GATHER_H
#define GPUR_GATHER_H

#include "args_replay.h"
#include "field_copy.h"
#include "permutation.h"

/* What all rows of one draw share. */
typedef struct gpur_draw {
    gpur_window window;
    uint64_t step;
    gpur_permutation permutation;
} gpur_draw;

GPUR_FN void gpur_draw_begin(gpur_draw *draw, const gpur_gather_args *a)
{
    draw->window = *a->window;
    draw->step = a->step ? *a->step : a->step_value;
    memset(&draw->permutation, 0, sizeof draw->permutation);
    if (a->source == GPUR_SOURCE_DISTINCT && draw->window.count > 0)
        draw->permutation = gpur_permutation_of(a->seed, a->purpose, draw->step, (uint64_t)draw->window.count);
}

GPUR_FN int64_t gpur_draw_slot(const gpur_draw *draw, const gpur_gather_args *a, int64_t offset)
{
    const int64_t slot = draw->window.first_slot + offset;
    return slot < a->capacity ? slot : slot - a->capacity;
}

/* The slot of row b of the batch, or -1. */
GPUR_FN int64_t gpur_draw_row(const gpur_draw *draw, const gpur_gather_args *a, int64_t b)
{
    const int64_t first_id = draw->window.first_id, count = draw->window.count;
    if (a->source == GPUR_SOURCE_IDS) {
        const int64_t id = a->ids[b];
        return id >= first_id && id - first_id < count ? gpur_draw_slot(draw, a, id - first_id) : -1;
    }
    if (b >= count && (count == 0 || a->source == GPUR_SOURCE_DISTINCT))
        return -1;
    if (a->source == GPUR_SOURCE_DISTINCT)
        return gpur_draw_slot(draw, a, (int64_t)gpur_permute(&draw->permutation, (uint64_t)b));
    const gpur_u32x4 bits = gpur_random_bits(a->seed, a->purpose, draw->step, (uint32_t)b);
    return gpur_draw_slot(draw, a, (int64_t)gpur_random_below(bits, (uint64_t)count));
}

/* The same for a tile of rows on a CPU, where a uniform draw is worth vectors. */
GPUR_FN void gpur_draw_rows(const gpur_draw *draw, const gpur_gather_args *a, int64_t first, int32_t rows,
                            int64_t *slots)
{
    uint64_t words[GPUR_LANES];
    if (a->source != GPUR_SOURCE_UNIFORM || draw->window.count == 0) {
        for (int32_t i = 0; i < rows; i++)
            slots[i] = gpur_draw_row(draw, a, first + i);
        return;
    }
    gpur_random_lanes(a->seed, a->purpose, draw->step, (uint32_t)first, rows, words);
    for (int32_t i = 0; i < rows; i++)
        slots[i] = gpur_draw_slot(draw, a, (int64_t)gpur_mulhi_u64(words[i], (uint64_t)draw->window.count));
}

GPUR_FN int32_t gpur_tile_rows_of(const gpur_gather_args *a, int64_t tile)
{
    const int64_t left = a->batch - tile * a->tile;
    return (int32_t)(left < a->tile ? left : a->tile);
}

/* Draws the tile's rows into `slots`. A CPU asks for their lines here, a tile ahead of their copying. */
GPUR_FN void gpur_draw_tile(gpur_place at, const gpur_draw *draw, const gpur_gather_args *a, int64_t tile,
                            int64_t *slots)
{
    const int64_t first = tile * a->tile;
    const int32_t rows = gpur_tile_rows_of(a, tile);
    if (gpur_strided()) {
        for (int32_t i = at.thread; i < rows; i += at.threads)
            slots[i] = gpur_draw_row(draw, a, first + i);
        return;
    }
    gpur_draw_rows(draw, a, first, rows, slots);
    for (int32_t i = 0; i < rows; i++)
        for (int32_t line = 0; slots[i] >= 0 && line < a->row_bytes; line += 64)
            gpur_prefetch(a->ring + slots[i] * a->pitch + line);
}

/* What a batch has beside its fields. */
GPUR_FN void gpur_gather_extras(const gpur_draw *draw, const gpur_gather_args *a, int64_t b, int64_t slot)
{
    const int64_t offset = slot - draw->window.first_slot;
    if (a->id)
        a->id[b] = slot < 0 ? -1 : draw->window.first_id + (offset < 0 ? offset + a->capacity : offset);
    if (a->weight)
        a->weight[b] = slot < 0 ? 0.0f : 1.0f;
    if (a->discount) {
        const int ends = slot >= 0 && a->terminated_offset >= 0 && a->ring[slot * a->pitch + a->terminated_offset] != 0;
        a->discount[b] = slot < 0 || ends ? 0.0f : a->gamma;
    }
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

GPUR_FN void gpur_gather_field(const gpur_gather_args *a, const gpur_field_copy *copy, int64_t bytes, int64_t first,
                               int32_t rows, const int64_t *slots)
{
    for (int32_t i = 0; i < rows; i++) {
        unsigned char *const to = copy->array + (first + i) * copy->array_pitch;
        if (slots[i] < 0)
            memset(to, 0, (size_t)bytes);
        else
            gpur_move_value(to, a->ring + slots[i] * a->pitch + copy->offset, bytes);
    }
}

/* The same for one thread, field by field: the commonest sizes are single moves that the compiler knows. */
GPUR_FN void gpur_gather_values(const gpur_gather_args *a, int64_t first, int32_t rows, const int64_t *slots)
{
    for (int32_t c = 0; c < a->copy_count; c++) {
        const gpur_field_copy *const copy = &a->copies[c];
        const int64_t bytes = (int64_t)copy->units << copy->shift;
        if (bytes == 1)
            gpur_gather_field(a, copy, 1, first, rows, slots);
        else if (bytes == 4)
            gpur_gather_field(a, copy, 4, first, rows, slots);
        else
            gpur_gather_field(a, copy, bytes, first, rows, slots);
    }
}

GPUR_FN void gpur_gather_tile(gpur_place at, const gpur_draw *draw, const gpur_gather_args *a, int64_t tile,
                              const int64_t *slots)
{
    const int64_t first = tile * a->tile;
    const int32_t rows = gpur_tile_rows_of(a, tile);
    for (int32_t i = at.thread; i < rows; i += at.threads)
        gpur_gather_extras(draw, a, first + i, slots[i]);
    if (gpur_strided())
        gpur_gather_units(at, a, first, rows, slots);
    else
        gpur_gather_values(a, first, rows, slots);
}

/* Slots are drawn one tile ahead, into the other half of `slots`, so that a tile needs one barrier. */
GPUR_KERNEL(gather)
{
    GPUR_SHARED(int64_t, slots, 2 * GPUR_TILE);
    const gpur_span tiles = gpur_block_rows(at, (a->batch + a->tile - 1) / a->tile);
    gpur_draw draw;
    int64_t *mine = slots, *next = slots + GPUR_TILE;
    gpur_draw_begin(&draw, a);
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
