/* SPDX-License-Identifier: MIT */
/* Serial gather, software-pipelined: it samples and prefetches one row tile while it copies the previous tile field
 * by field. Large rows have smaller tiles, because the number of outstanding cache lines is limited. The largest rows
 * prefetch the next row while they are copied. */
#ifndef GPUR_KERNELS_CPU_GATHER_SERIAL_H
#define GPUR_KERNELS_CPU_GATHER_SERIAL_H

#include "kernels/cpu/copy_prefetch.h"
#include "kernels/replay/draw_rows.h"
#include "kernels/cpu/random_lanes.h"
#include "kernels/cpu/copy_value.h"

enum {
    GPUR_LINE = 64,
    GPUR_LARGE_ROW = 1024,
    GPUR_LARGE_BATCH = 6 << 20, /* bytes of a batch that leave the nearer caches before they are read */
};

/* A row tile. GPUR_TILE is a multiple of GPUR_LANES, so there is room for whole vectors. */
typedef struct gpur_hand {
    int64_t first; /* number of its first row in the batch */
    int32_t rows, missing;
    int64_t slots[GPUR_TILE]; /* (rows) -1: the row is missing */
    int64_t at[GPUR_TILE];    /* (rows) bytes from the start of the ring; meaningless for a missing row */
} gpur_hand;

GPUR_FN int64_t gpur_copy_bytes(const gpur_field_copy *copy)
{
    return (int64_t)copy->units << copy->shift;
}

/* Converts random bits to slots and to offsets in the ring, a vector at a time. The offset in the window is
 * floor(bits x count / 2^64), as in gpur_random_below. Slots must fit in 32 bits. */
GPUR_FN void gpur_hand_place(const gpur_draw *draw, const gpur_gather_args *a, int64_t *slots, int64_t *at)
{
    const uint64_t capacity = (uint64_t)a->capacity, first_slot = (uint64_t)draw->window.first_slot;
    const gpur_lanes zero = {0}, count = zero + (uint64_t)draw->window.count;
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
GPUR_FN void gpur_hand_draw_uniform(const gpur_draw *draw, const gpur_gather_args *a, gpur_hand *hand)
{
    const int fits = a->capacity <= INT32_MAX;
    for (int32_t i = 0; i < hand->rows; i += GPUR_LANES) {
        gpur_random_lanes(a->seed, a->purpose, draw->step, (uint32_t)(hand->first + i), (uint64_t *)&hand->slots[i]);
        if (fits)
            gpur_hand_place(draw, a, &hand->slots[i], &hand->at[i]);
    }
    for (int32_t i = 0; !fits && i < hand->rows; i++) {
        const uint64_t offset = gpur_mulhi_u64((uint64_t)hand->slots[i], (uint64_t)draw->window.count);
        hand->slots[i] = gpur_draw_slot(draw, a, (int64_t)offset);
        hand->at[i] = hand->slots[i] * a->pitch;
    }
}

GPUR_FN void gpur_hand_draw(const gpur_draw *draw, const gpur_gather_args *a, gpur_hand *hand)
{
    hand->missing = 0;
    if (a->source == GPUR_SOURCE_UNIFORM && draw->window.count > 0) {
        gpur_hand_draw_uniform(draw, a, hand);
        return;
    }
    for (int32_t i = 0; i < hand->rows; i++) {
        hand->slots[i] = gpur_draw_row(draw, a, hand->first + i);
        hand->missing += hand->slots[i] < 0;
        hand->at[i] = (hand->slots[i] < 0 ? 0 : hand->slots[i]) * a->pitch;
    }
}

/* Whether rows are so large that the long values of a row are prefetched while the row before is copied. */
GPUR_FN int gpur_asks_ahead(const gpur_gather_args *a)
{
    return a->row_bytes > GPUR_LARGE_ROW;
}

/* Whether to use non-temporal stores. They pay only if the batch is so large that it leaves the nearer caches before
 * it is read. */
GPUR_FN int gpur_gathers_past(const gpur_gather_args *a)
{
    return gpur_asks_ahead(a) && a->batch * a->row_bytes > GPUR_LARGE_BATCH;
}

/* Prefetches all rows of a tile. */
GPUR_FN void gpur_hand_ask(const gpur_hand *hand, const gpur_gather_args *a)
{
    for (int32_t i = 0; i < hand->rows; i++)
        for (int32_t line = 0; line < a->row_bytes; line += GPUR_LINE)
            gpur_prefetch(a->ring + hand->at[i] + line);
}

/* Prefetches the short values of a large row, and the last line of each long one. While the row before is copied, a
 * long value is prefetched in steps of a line from its first byte, which may be anywhere in a line: that can miss the
 * last line. */
GPUR_FN void gpur_ask_for_short(const gpur_gather_args *a, const unsigned char *row)
{
    for (int32_t c = 0; c < a->copy_count; c++) {
        const int64_t bytes = gpur_copy_bytes(&a->copies[c]);
        const unsigned char *const from = row + a->copies[c].offset;
        for (int64_t line = 0; bytes < GPUR_LONG_VALUE && line < bytes; line += GPUR_LINE)
            gpur_prefetch(from + line);
        gpur_prefetch(from + bytes - 1);
    }
    if (a->terminated_offset >= 0)
        gpur_prefetch(row + a->terminated_offset);
}

/* Samples and prefetches the next tile: rows from `first` on, up to `last` at most. */
GPUR_FN void gpur_hand_take(const gpur_draw *draw, const gpur_gather_args *a, int64_t first, int64_t last,
                            gpur_hand *hand)
{
    const int64_t left = last - first;
    hand->first = first;
    hand->rows = (int32_t)(left < a->tile ? left : a->tile);
    gpur_hand_draw(draw, a, hand);
    for (int32_t i = 0; i < hand->rows && gpur_asks_ahead(a); i++)
        gpur_ask_for_short(a, a->ring + hand->at[i]);
    if (!gpur_asks_ahead(a))
        gpur_hand_ask(hand, a);
}

/* Copies one field of a tile that has no missing rows. */
GPUR_FN void gpur_hand_field(const gpur_hand *hand, const unsigned char *ring, const gpur_field_copy *copy,
                             int64_t bytes)
{
    const unsigned char *const from = ring + copy->offset;
    const int64_t pitch = copy->array_pitch;
    const int32_t rows = hand->rows;
    unsigned char *to = copy->array + hand->first * pitch;
    for (int32_t i = 0; i < rows; i++, to += pitch)
        gpur_move_value(to, from + hand->at[i], bytes);
}

/* The most common sizes are constants, so each value is a single copy. */
GPUR_FN void gpur_hand_fields(const gpur_hand *hand, const gpur_gather_args *a)
{
    for (int32_t c = 0; c < a->copy_count; c++) {
        const gpur_field_copy *const copy = &a->copies[c];
        const int64_t bytes = gpur_copy_bytes(copy);
        if (bytes == 1)
            gpur_hand_field(hand, a->ring, copy, 1);
        else if (bytes == 4)
            gpur_hand_field(hand, a->ring, copy, 4);
        else if (bytes == 8)
            gpur_hand_field(hand, a->ring, copy, 8);
        else if (bytes == 16)
            gpur_hand_field(hand, a->ring, copy, 16);
        else
            gpur_hand_field(hand, a->ring, copy, bytes);
    }
}

/* Copies large rows and prefetches the long values of `next` meanwhile. */
GPUR_FN void gpur_hand_fields_ahead(const gpur_hand *hand, const gpur_hand *next, const gpur_gather_args *a)
{
    const int past = gpur_gathers_past(a);
    for (int32_t c = 0; c < a->copy_count; c++) {
        const gpur_field_copy *const copy = &a->copies[c];
        const unsigned char *const from = a->ring + copy->offset;
        const int64_t bytes = gpur_copy_bytes(copy);
        for (int32_t i = 0; i < hand->rows; i++) {
            unsigned char *const to = copy->array + (hand->first + i) * copy->array_pitch;
            if (bytes < GPUR_LONG_VALUE)
                gpur_move_value(to, from + hand->at[i], bytes);
            else if (past)
                gpur_copy_ahead_past(to, from + hand->at[i], from + next->at[i < next->rows ? i : 0], bytes);
            else
                gpur_copy_ahead(to, from + hand->at[i], from + next->at[i < next->rows ? i : 0], bytes);
        }
    }
}

GPUR_FN void gpur_hand_ids(const gpur_hand *hand, const gpur_draw *draw, int64_t capacity, int64_t *id)
{
    const gpur_window window = draw->window;
    const int32_t rows = hand->rows;
    for (int32_t i = 0; i < rows; i++) {
        const int64_t offset = hand->slots[i] - window.first_slot;
        id[i] = window.first_id + (offset < 0 ? offset + capacity : offset);
    }
}

GPUR_FN void gpur_hand_discounts(const gpur_hand *hand, const gpur_gather_args *a, float *discount)
{
    const float gamma = a->gamma, by_end[2] = {gamma, 0.0f};
    const int32_t rows = hand->rows, terminated = a->terminated_offset;
    for (int32_t i = 0; terminated >= 0 && i < rows; i++)
        discount[i] = by_end[a->ring[hand->at[i] + terminated] != 0];
    for (int32_t i = 0; terminated < 0 && i < rows; i++)
        discount[i] = gamma;
}

GPUR_FN void gpur_hand_weights(const gpur_hand *hand, float *weight)
{
    const int32_t rows = hand->rows;
    for (int32_t i = 0; i < rows; i++)
        weight[i] = 1.0f;
}

GPUR_FN void gpur_hand_extras(const gpur_hand *hand, const gpur_draw *draw, const gpur_gather_args *a)
{
    if (a->id)
        gpur_hand_ids(hand, draw, a->capacity, a->id + hand->first);
    if (a->weight)
        gpur_hand_weights(hand, a->weight + hand->first);
    if (a->discount)
        gpur_hand_discounts(hand, a, a->discount + hand->first);
}

/* Copies a tile with missing rows, row by row; a missing row becomes zeros. */
GPUR_FN void gpur_hand_copy_some(const gpur_hand *hand, const gpur_draw *draw, const gpur_gather_args *a)
{
    for (int32_t i = 0; i < hand->rows; i++) {
        gpur_gather_extras(draw, a, hand->first + i, hand->slots[i]);
        for (int32_t c = 0; c < a->copy_count; c++) {
            const gpur_field_copy *const copy = &a->copies[c];
            const int64_t bytes = gpur_copy_bytes(copy);
            unsigned char *const to = copy->array + (hand->first + i) * copy->array_pitch;
            if (hand->slots[i] < 0)
                memset(to, 0, (size_t)bytes);
            else
                gpur_move_value(to, a->ring + hand->at[i] + copy->offset, bytes);
        }
    }
}

/* Copies a tile and prefetches `next`, the tile after it; the last tile is given as its own `next`. */
GPUR_FN void gpur_hand_copy(const gpur_hand *hand, const gpur_hand *next, const gpur_draw *draw,
                            const gpur_gather_args *a)
{
    if (hand->missing > 0) {
        gpur_hand_copy_some(hand, draw, a);
        return;
    }
    gpur_hand_extras(hand, draw, a);
    if (gpur_asks_ahead(a))
        gpur_hand_fields_ahead(hand, next, a);
    else
        gpur_hand_fields(hand, a);
}

/* The serial body: gathers this block's share of the batch. Two tiles alternate. */
GPUR_FN void gpur_gather_alone(gpur_place at, const gpur_draw *draw, const gpur_gather_args *a)
{
    const gpur_span span = gpur_block_rows(at, a->batch);
    gpur_hand hands[2];
    int now = 0;
    if (span.first == span.last)
        return;
    gpur_hand_take(draw, a, span.first, span.last, &hands[now]);
    for (;;) {
        const int64_t next = hands[now].first + hands[now].rows;
        const int is_last = next == span.last, then = is_last ? now : 1 - now;
        if (!is_last)
            gpur_hand_take(draw, a, next, span.last, &hands[then]);
        gpur_hand_copy(&hands[now], &hands[then], draw, a);
        if (is_last)
            break;
        now = then;
    }
    if (gpur_gathers_past(a))
        gpur_past_fence();
}

#endif
