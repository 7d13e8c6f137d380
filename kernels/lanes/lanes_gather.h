/* SPDX-License-Identifier: MIT */
/* Draws rows of lanes and makes a transition of up to n steps of each: gpur_lanes_gather_args. On a GPU a warp makes a
 * transition; a CPU's thread makes a tile of them at a time, and fetches what it will need ahead. */
#pragma once

#include "kernels/cpu/copy_value.h"
#include "kernels/lib/lane_rows.h"
#include "kernels/lib/collective.h"
#include "kernels/lib/permutation.h"
#include "kernels/priority/tree.h"
#include "kernels/replay/field_copy.h"

/* How often a draw is repeated until it finds a whole row. */
enum { GPUR_LANES_TRIES = 65536 };

/* What all rows of a gather share. */
typedef struct gpur_lanes_draw {
    int64_t steps, first, rows, draw; /* rows: of all steps that are kept, whole or not */
    int has_whole;
} gpur_lanes_draw;

/* A transition: its first row, and what follows it. */
typedef struct gpur_lanes_transition {
    int64_t slot, id; /* -1: it is missing */
    int64_t next;     /* slot of the next observation; -1: it is zeros */
    int64_t final;    /* slot in the side ring; -1: it is that of `next` */
    float reward, discount;
    int32_t steps;
    unsigned char terminated, truncated;
} gpur_lanes_transition;

GPUR_FN gpur_lanes_draw gpur_lanes_draw_of(const gpur_lanes_gather_args *a)
{
    const gpur_lanes_state *const state = a->lanes.state;
    gpur_lanes_draw d;
    d.steps = state->steps;
    d.first = gpur_lanes_oldest(&a->lanes, d.steps);
    d.rows = (d.steps - d.first) * a->lanes.lanes;
    d.draw = (int64_t)*a->draw;
    d.has_whole = state->whole > 0;
    return d;
}

/* The row that the try number i finds for row b, counted from the oldest one; -1: there are no more. Distinct rows are
 * elements b, b + B, b + 2 B, ... of a permutation, so no two rows of the batch meet. */
GPUR_FN int64_t gpur_lanes_try(const gpur_lanes_gather_args *a, const gpur_lanes_draw *d, int64_t b, uint32_t i)
{
    const gpur_u32x4 bits = gpur_random_bits(a->seed, a->purpose | i << 16, (uint64_t)d->draw, (uint32_t)b);
    if (a->way == GPUR_LANES_DISTINCT) {
        const int64_t at = b + (int64_t)i * a->batch;
        const gpur_permutation p = gpur_permutation_of(a->seed, a->purpose, (uint64_t)d->draw, (uint64_t)d->rows);
        return at < d->rows ? (int64_t)gpur_permute(&p, (uint64_t)at) : -1;
    }
    if (a->way == GPUR_LANES_OF_EACH) {
        const int64_t step = (int64_t)gpur_random_below(bits, (uint64_t)(d->steps - d->first));
        return step * a->lanes.lanes + b / (a->batch / a->lanes.lanes);
    }
    return (int64_t)gpur_random_below(bits, (uint64_t)d->rows);
}

/* The id of row b. Every whole row is as likely as any other, since rows that are not whole are drawn again. */
GPUR_FN int64_t gpur_lanes_draw_id(const gpur_lanes_gather_args *a, const gpur_lanes_draw *d, int64_t b)
{
    const int64_t first_id = d->first * a->lanes.lanes;
    for (uint32_t i = 0; d->has_whole && i < GPUR_LANES_TRIES; i++) {
        const int64_t row = gpur_lanes_try(a, d, b, i);
        if (row < 0 || gpur_lanes_find(&a->lanes, d->steps, first_id + row) >= 0)
            return row < 0 ? -1 : first_id + row;
    }
    return -1;
}

/* The id of the row that row b of the batch begins with. */
GPUR_FN int64_t gpur_lanes_id_of(const gpur_lanes_gather_args *a, const gpur_lanes_draw *d, int64_t b)
{
    if (a->ids && (!a->redraws || gpur_lanes_find(&a->lanes, d->steps, a->ids[b]) >= 0))
        return a->ids[b];
    return gpur_lanes_draw_id(a, d, b);
}

/* Follows a lane from a whole row on. */
GPUR_FN gpur_lanes_transition gpur_lanes_follow(const gpur_lanes_gather_args *a, const gpur_lanes_draw *d, int64_t id)
{
    const gpur_lane_rings *const l = &a->lanes;
    const double gamma = (double)a->gamma;
    gpur_lanes_transition t;
    int64_t slot = gpur_lanes_find(l, d->steps, id);
    double reward, discount = gamma;
    unsigned char flags;
    memset(&t, 0, sizeof t);
    t.slot = slot, t.id = slot < 0 ? -1 : id, t.next = t.final = -1;
    if (slot < 0)
        return t;
    flags = l->flags[slot];
    reward = (double)l->reward[slot];
    t.steps = 1;
    while (t.steps < a->n_step && (flags & GPUR_LANE_ENDED) == 0) {
        const int64_t later = gpur_lanes_later(l, slot, 1);
        const unsigned char after = l->flags[later];
        if ((after & GPUR_LANE_IS_WHOLE) == 0)
            break;
        reward += discount * (double)l->reward[later];
        discount *= gamma;
        slot = later, flags = after;
        t.steps++;
    }
    t.reward = (float)reward;
    t.terminated = (flags & GPUR_LANE_TERMINATED) != 0;
    t.truncated = (flags & GPUR_LANE_TRUNCATED) != 0;
    t.discount = t.terminated ? 0.0f : (float)discount;
    if ((flags & GPUR_LANE_HAS_FINAL) != 0)
        t.final = (int64_t)l->final[slot];
    else if ((flags & GPUR_LANE_ENDED) == 0 || l->resets_later)
        t.next = gpur_lanes_later(l, slot, 1);
    return t;
}

/* Where a copy reads of a transition; NULL: zeros. */
GPUR_FN const unsigned char *gpur_lanes_source(const gpur_lane_copy *copy, const gpur_lanes_transition *t)
{
    const int64_t at = copy->is_next ? t->next : t->slot;
    if (copy->is_next && t->final >= 0)
        return copy->finals + t->final * copy->bytes;
    return t->slot < 0 || at < 0 ? (const unsigned char *)0 : copy->ring + at * copy->bytes;
}

GPUR_FN void gpur_lanes_write(const gpur_lanes_gather_args *a, int64_t b, const gpur_lanes_transition *t)
{
    if (a->id)
        a->id[b] = t->id;
    if (a->weight)
        a->weight[b] = t->slot < 0 ? 0.0f : 1.0f;
    if (a->discount)
        a->discount[b] = t->discount;
    if (a->reward)
        a->reward[b] = t->reward;
    if (a->terminated)
        a->terminated[b] = t->terminated;
    if (a->truncated)
        a->truncated[b] = t->truncated;
    if (a->steps)
        a->steps[b] = t->steps;
}

/* The threads of a warp copy neighboring units, several at a time. */
GPUR_FN void gpur_lanes_copy_units(gpur_thread at, const gpur_lanes_gather_args *a, int64_t b,
                                   const gpur_lanes_transition *t)
{
    for (int32_t first = gpur_lane(at); first < a->units; first += GPUR_UNITS_PER_THREAD * GPUR_WARP) {
        gpur_unit_copy moves[GPUR_UNITS_PER_THREAD];
        gpur_u32x4 values[GPUR_UNITS_PER_THREAD];
        for (int n = 0; n < GPUR_UNITS_PER_THREAD; n++) {
            const int32_t unit = first + n * GPUR_WARP;
            int32_t c = 0;
            while (c + 1 < a->copy_count && unit >= a->copies[c + 1].first_unit)
                c++;
            const gpur_lane_copy *const copy = &a->copies[c];
            const int64_t byte = (int64_t)(unit - copy->first_unit) << copy->shift;
            const unsigned char *const from = gpur_lanes_source(copy, t);
            moves[n].shift = copy->shift;
            moves[n].from = from && unit < a->units ? from + byte : (const unsigned char *)0;
            moves[n].to = unit < a->units ? copy->to + b * copy->pitch + byte : (unsigned char *)0;
        }
        gpur_load_units(values, moves);
        gpur_store_units(moves, values);
    }
}

/* A tile of the serial body. */
enum { GPUR_LANES_TILE = 16, GPUR_LANES_LINE = 64 };

GPUR_FN void gpur_lanes_prefetch(const gpur_lanes_gather_args *a, const gpur_lanes_transition *t)
{
    for (int32_t c = 0; c < a->copy_count; c++) {
        const unsigned char *const from = gpur_lanes_source(&a->copies[c], t);
        for (int64_t byte = 0; from && byte < a->copies[c].bytes; byte += GPUR_LANES_LINE)
            gpur_prefetch(from + byte);
    }
}

GPUR_FN void gpur_lanes_copy_values(const gpur_lanes_gather_args *a, int64_t b, const gpur_lanes_transition *t)
{
    for (int32_t c = 0; c < a->copy_count; c++) {
        const gpur_lane_copy *const copy = &a->copies[c];
        const unsigned char *const from = gpur_lanes_source(copy, t);
        if (from)
            gpur_copy_value(copy->to + b * copy->pitch, from, copy->bytes);
        else
            memset(copy->to + b * copy->pitch, 0, (size_t)copy->bytes);
    }
}

/* Draws the ids of a tile, and fetches the flags and rewards that they lead to; then follows each; then copies. */
GPUR_FN void gpur_lanes_gather_serial(gpur_thread at, const gpur_lanes_gather_args *a, const gpur_lanes_draw *d)
{
    const gpur_span rows = gpur_block_rows(at, a->batch);
    gpur_lanes_transition tile[GPUR_LANES_TILE];
    int64_t ids[GPUR_LANES_TILE];
    for (int64_t first = rows.first; first < rows.last; first += GPUR_LANES_TILE) {
        const int64_t left = rows.last - first;
        const int count = (int)(left < GPUR_LANES_TILE ? left : GPUR_LANES_TILE);
        for (int i = 0; i < count; i++) {
            ids[i] = gpur_lanes_id_of(a, d, first + i);
            const int64_t slot = gpur_lanes_find(&a->lanes, d->steps, ids[i]);
            if (slot >= 0)
                gpur_prefetch(&a->lanes.reward[slot]);
        }
        for (int i = 0; i < count; i++) {
            tile[i] = gpur_lanes_follow(a, d, ids[i]);
            gpur_lanes_prefetch(a, &tile[i]);
        }
        for (int i = 0; i < count; i++) {
            gpur_lanes_copy_values(a, first + i, &tile[i]);
            gpur_lanes_write(a, first + i, &tile[i]);
        }
    }
}

GPUR_KERNEL(lanes_gather)
{
    const gpur_lanes_draw d = gpur_lanes_draw_of(a);
    const gpur_span rows = gpur_warp_rows(at, a->batch);
    if (!gpur_is_parallel()) {
        gpur_lanes_gather_serial(at, a, &d);
        return;
    }
    for (int64_t b = rows.first; b < rows.last; b += rows.step) {
        const int64_t drawn = gpur_lanes_id_of(a, &d, b);
        const int64_t id = (int64_t)gpur_warp_get_u64(at, (uint64_t)drawn, 0); /* read before it is written below */
        const gpur_lanes_transition t = gpur_lanes_follow(a, &d, id);
        gpur_lanes_copy_units(at, a, b, &t);
        if (gpur_lane(at) == 0)
            gpur_lanes_write(a, b, &t);
    }
}
