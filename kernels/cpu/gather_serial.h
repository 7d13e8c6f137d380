/* SPDX-License-Identifier: MIT */
/* Serial gather, software-pipelined: it samples and prefetches one row tile while it copies the previous tile field
 * by field. Large rows have smaller tiles, because the number of outstanding cache lines is limited. The largest rows
 * prefetch the next row while they are copied. */
#pragma once

#include "kernels/cpu/copy_prefetch.h"
#include "kernels/lib/sample_rows.h"
#include "kernels/cpu/random_lanes.h"
#include "kernels/cpu/copy_value.h"

enum {
    GPUR_CACHE_LINE = 64,
    GPUR_LARGE_ROW = 1024,
    GPUR_LARGE_BATCH = 6 << 20, /* bytes of a batch that leave the nearer caches before they are read */
};

/* A row tile. GPUR_MAX_TILE_ROWS is a multiple of GPUR_LANES, so there is room for whole vectors. */
typedef struct gpur_row_tile {
    int64_t first; /* number of its first row in the batch */
    int32_t rows, missing;
    int64_t slots[GPUR_MAX_TILE_ROWS];   /* (rows) -1: the row is missing */
    int64_t offsets[GPUR_MAX_TILE_ROWS]; /* (rows) bytes from the start of the ring; meaningless for a missing row */
} gpur_row_tile;

GPUR_FN int64_t gpur_copy_bytes(const gpur_field_copy *copy)
{
    return (int64_t)copy->units << copy->shift;
}

/* Converts random bits to slots and to offsets in the ring, a vector at a time. The offset in the window is
 * floor(bits x count / 2^64), as in gpur_random_below. Slots must fit in 32 bits. */
GPUR_FN void gpur_row_tile_locate(const gpur_sample_state *state, const gpur_gather_args *a, int64_t *slots,
                                  int64_t *at)
{
    const uint64_t capacity = (uint64_t)a->capacity, first_slot = (uint64_t)state->window.first_slot;
    const gpur_lanes zero = {0}, count = zero + (uint64_t)state->window.count;
    gpur_lanes bits, slot;
    memcpy(&bits, slots, sizeof bits);
    slot = first_slot + ((gpur_lanes_multiply(bits >> 32, count) + (gpur_lanes_multiply(bits, count) >> 32)) >> 32);
    slot -= capacity;
    slot += capacity & (zero - (slot >> 63)); /* adds it back where the slot is below 0 */
    memcpy(slots, &slot, sizeof slot);
    slot = gpur_lanes_multiply(slot, zero + (uint64_t)a->pitch);
    memcpy(at, &slot, sizeof slot);
}

/* Computes whole vectors, even where the last rows need only some of their lanes. */
GPUR_FN void gpur_row_tile_sample_uniform(const gpur_sample_state *state, const gpur_gather_args *a,
                                          gpur_row_tile *tile)
{
    const int fits = a->capacity <= INT32_MAX;
    for (int32_t i = 0; i < tile->rows; i += GPUR_LANES) {
        gpur_random_lanes(a->seed, a->purpose, state->step, (uint32_t)(tile->first + i), (uint64_t *)&tile->slots[i]);
        if (fits)
            gpur_row_tile_locate(state, a, &tile->slots[i], &tile->offsets[i]);
    }
    for (int32_t i = 0; !fits && i < tile->rows; i++) {
        const uint64_t offset = gpur_mulhi_u64((uint64_t)tile->slots[i], (uint64_t)state->window.count);
        tile->slots[i] = gpur_sample_slot(state, a, (int64_t)offset);
        tile->offsets[i] = tile->slots[i] * a->pitch;
    }
}

GPUR_FN void gpur_row_tile_sample(const gpur_sample_state *state, const gpur_gather_args *a, gpur_row_tile *tile)
{
    tile->missing = 0;
    if (a->source == GPUR_GATHER_UNIFORM && state->window.count > 0) {
        gpur_row_tile_sample_uniform(state, a, tile);
        return;
    }
    for (int32_t i = 0; i < tile->rows; i++) {
        tile->slots[i] = gpur_sample_row(state, a, tile->first + i);
        tile->missing += tile->slots[i] < 0;
        tile->offsets[i] = (tile->slots[i] < 0 ? 0 : tile->slots[i]) * a->pitch;
    }
}

/* Whether rows are so large that the long values of a row are prefetched while the row before is copied. */
GPUR_FN int gpur_prefetches_next(const gpur_gather_args *a)
{
    return a->row_bytes > GPUR_LARGE_ROW;
}

/* Whether to use non-temporal stores. They pay only if the batch is so large that it leaves the nearer caches before
 * it is read. */
GPUR_FN int gpur_gather_is_nontemporal(const gpur_gather_args *a)
{
    return gpur_prefetches_next(a) && a->batch * a->row_bytes > GPUR_LARGE_BATCH;
}

/* Prefetches all rows of a tile. */
GPUR_FN void gpur_row_tile_prefetch(const gpur_row_tile *tile, const gpur_gather_args *a)
{
    for (int32_t i = 0; i < tile->rows; i++)
        for (int32_t line = 0; line < a->row_bytes; line += GPUR_CACHE_LINE)
            gpur_prefetch(a->ring + tile->offsets[i] + line);
}

/* Prefetches the short values of a large row, and the last line of each long one. While the row before is copied, a
 * long value is prefetched in steps of a line from its first byte, which may be anywhere in a line: that can miss the
 * last line. */
GPUR_FN void gpur_prefetch_short_values(const gpur_gather_args *a, const unsigned char *row)
{
    for (int32_t c = 0; c < a->copy_count; c++) {
        const int64_t bytes = gpur_copy_bytes(&a->copies[c]);
        const unsigned char *const from = row + a->copies[c].offset;
        for (int64_t line = 0; bytes < GPUR_LONG_VALUE && line < bytes; line += GPUR_CACHE_LINE)
            gpur_prefetch(from + line);
        gpur_prefetch(from + bytes - 1);
    }
    if (a->terminated_offset >= 0)
        gpur_prefetch(row + a->terminated_offset);
}

/* Samples and prefetches the next tile: rows from `first` on, up to `last` at most. */
GPUR_FN void gpur_row_tile_load(const gpur_sample_state *state, const gpur_gather_args *a, int64_t first, int64_t last,
                                gpur_row_tile *tile)
{
    const int64_t left = last - first;
    tile->first = first;
    tile->rows = (int32_t)(left < a->tile_rows ? left : a->tile_rows);
    gpur_row_tile_sample(state, a, tile);
    for (int32_t i = 0; i < tile->rows && gpur_prefetches_next(a); i++)
        gpur_prefetch_short_values(a, a->ring + tile->offsets[i]);
    if (!gpur_prefetches_next(a))
        gpur_row_tile_prefetch(tile, a);
}

/* Copies one field of a tile that has no missing rows. */
GPUR_FN void gpur_row_tile_copy_field(const gpur_row_tile *tile, const unsigned char *ring, const gpur_field_copy *copy,
                                      int64_t bytes)
{
    const unsigned char *const from = ring + copy->offset;
    const int64_t pitch = copy->array_pitch;
    const int32_t rows = tile->rows;
    unsigned char *to = copy->array + tile->first * pitch;
    for (int32_t i = 0; i < rows; i++, to += pitch)
        gpur_copy_value(to, from + tile->offsets[i], bytes);
}

/* The most common sizes are constants, so each value is a single copy. */
GPUR_FN void gpur_row_tile_copy_fields(const gpur_row_tile *tile, const gpur_gather_args *a)
{
    for (int32_t c = 0; c < a->copy_count; c++) {
        const gpur_field_copy *const copy = &a->copies[c];
        const int64_t bytes = gpur_copy_bytes(copy);
        if (bytes == 1)
            gpur_row_tile_copy_field(tile, a->ring, copy, 1);
        else if (bytes == 4)
            gpur_row_tile_copy_field(tile, a->ring, copy, 4);
        else if (bytes == 8)
            gpur_row_tile_copy_field(tile, a->ring, copy, 8);
        else if (bytes == 16)
            gpur_row_tile_copy_field(tile, a->ring, copy, 16);
        else
            gpur_row_tile_copy_field(tile, a->ring, copy, bytes);
    }
}

/* Copies large rows and prefetches the long values of `next` meanwhile. */
GPUR_FN void gpur_row_tile_copy_fields_prefetch(const gpur_row_tile *tile, const gpur_row_tile *next,
                                                const gpur_gather_args *a)
{
    const int nontemporal = gpur_gather_is_nontemporal(a);
    for (int32_t c = 0; c < a->copy_count; c++) {
        const gpur_field_copy *const copy = &a->copies[c];
        const unsigned char *const from = a->ring + copy->offset;
        const int64_t bytes = gpur_copy_bytes(copy);
        for (int32_t i = 0; i < tile->rows; i++) {
            unsigned char *const to = copy->array + (tile->first + i) * copy->array_pitch;
            if (bytes < GPUR_LONG_VALUE)
                gpur_copy_value(to, from + tile->offsets[i], bytes);
            else if (nontemporal)
                gpur_copy_prefetch_nt(to, from + tile->offsets[i], from + next->offsets[i < next->rows ? i : 0], bytes);
            else
                gpur_copy_prefetch(to, from + tile->offsets[i], from + next->offsets[i < next->rows ? i : 0], bytes);
        }
    }
}

GPUR_FN void gpur_row_tile_write_ids(const gpur_row_tile *tile, const gpur_sample_state *state,
                                     const gpur_gather_args *a, int64_t *id)
{
    const gpur_window window = state->window;
    const int64_t *const turn = a->turn, capacity = a->capacity;
    const int32_t rows = tile->rows;
    for (int32_t i = 0; !turn && i < rows; i++) {
        const int64_t offset = tile->slots[i] - window.first_slot;
        id[i] = window.first_id + (offset < 0 ? offset + capacity : offset);
    }
    for (int32_t i = 0; turn && i < rows; i++)
        id[i] = gpur_turn_id(turn, capacity, tile->slots[i]);
}

GPUR_FN void gpur_row_tile_write_discounts(const gpur_row_tile *tile, const gpur_gather_args *a, float *discount)
{
    const float gamma = a->gamma, by_end[2] = {gamma, 0.0f};
    const int32_t rows = tile->rows, terminated = a->terminated_offset;
    for (int32_t i = 0; terminated >= 0 && i < rows; i++)
        discount[i] = by_end[a->ring[tile->offsets[i] + terminated] != 0];
    for (int32_t i = 0; terminated < 0 && i < rows; i++)
        discount[i] = gamma;
}

GPUR_FN void gpur_row_tile_write_weights(const gpur_row_tile *tile, float *weight)
{
    const int32_t rows = tile->rows;
    for (int32_t i = 0; i < rows; i++)
        weight[i] = 1.0f;
}

GPUR_FN void gpur_row_tile_write_extras(const gpur_row_tile *tile, const gpur_sample_state *state,
                                        const gpur_gather_args *a)
{
    if (a->id)
        gpur_row_tile_write_ids(tile, state, a, a->id + tile->first);
    if (a->weight)
        gpur_row_tile_write_weights(tile, a->weight + tile->first);
    if (a->discount)
        gpur_row_tile_write_discounts(tile, a, a->discount + tile->first);
}

/* Copies a tile with missing rows, row by row; a missing row becomes zeros. */
GPUR_FN void gpur_row_tile_copy_partial(const gpur_row_tile *tile, const gpur_sample_state *state,
                                        const gpur_gather_args *a)
{
    for (int32_t i = 0; i < tile->rows; i++) {
        gpur_gather_extras(state, a, tile->first + i, tile->slots[i], gpur_gather_is_terminal(a, tile->slots[i]));
        for (int32_t c = 0; c < a->copy_count; c++) {
            const gpur_field_copy *const copy = &a->copies[c];
            const int64_t bytes = gpur_copy_bytes(copy);
            unsigned char *const to = copy->array + (tile->first + i) * copy->array_pitch;
            if (tile->slots[i] < 0)
                memset(to, 0, (size_t)bytes);
            else
                gpur_copy_value(to, a->ring + tile->offsets[i] + copy->offset, bytes);
        }
    }
}

/* Copies a tile and prefetches `next`, the tile after it; the last tile is given as its own `next`. */
GPUR_FN void gpur_row_tile_copy(const gpur_row_tile *tile, const gpur_row_tile *next, const gpur_sample_state *state,
                                const gpur_gather_args *a)
{
    if (tile->missing > 0) {
        gpur_row_tile_copy_partial(tile, state, a);
        return;
    }
    gpur_row_tile_write_extras(tile, state, a);
    if (gpur_prefetches_next(a))
        gpur_row_tile_copy_fields_prefetch(tile, next, a);
    else
        gpur_row_tile_copy_fields(tile, a);
}

/* The serial body: gathers this block's share of the batch. Two tiles alternate. */
GPUR_FN void gpur_gather_serial(gpur_thread at, const gpur_sample_state *state, const gpur_gather_args *a)
{
    const gpur_span span = gpur_block_rows(at, a->batch);
    gpur_row_tile tiles[2];
    int now = 0;
    if (span.first == span.last)
        return;
    gpur_row_tile_load(state, a, span.first, span.last, &tiles[now]);
    for (;;) {
        const int64_t next = tiles[now].first + tiles[now].rows;
        const int is_last = next == span.last, then = is_last ? now : 1 - now;
        if (!is_last)
            gpur_row_tile_load(state, a, next, span.last, &tiles[then]);
        gpur_row_tile_copy(&tiles[now], &tiles[then], state, a);
        if (is_last)
            break;
        now = then;
    }
    if (gpur_gather_is_nontemporal(a))
        gpur_nt_fence();
}
