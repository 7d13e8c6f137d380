/* SPDX-License-Identifier: MIT */
/* Draws rows of lanes and makes a transition of up to n steps of each: gpur_lanes_gather_args. On a GPU a warp makes a
 * transition; a CPU's thread makes a tile of them at a time, and fetches what it will need ahead. */
#pragma once

#include "kernels/cpu/copy_value.h"
#include "kernels/cpu/gather_frames_serial.h"
#include "kernels/cpu/random_lanes.h"
#include "kernels/lib/lane_rows.h"
#include "kernels/lib/collective.h"
#include "kernels/lib/permutation.h"
#include "kernels/priority/tree.h"
#include "kernels/replay/field_copy.h"

/* How often a draw is repeated until it finds a whole row, before whole rows are counted. */
enum { GPUR_LANES_TRIES = 256 };

/* Whole rows of the window by parts of it, which a serial body counts once, when it first needs them. */
enum { GPUR_LANES_PARTS = 512 };
typedef struct gpur_lanes_parts {
    int64_t rows; /* of a part; 0: nothing was counted */
    int64_t whole[GPUR_LANES_PARTS];
} gpur_lanes_parts;

/* What all rows of a gather share. */
typedef struct gpur_lanes_draw {
    gpur_window window; /* of all rows that are kept, whole or not */
    int64_t draw;
    int64_t whole;
    gpur_lanes_parts *parts; /* of a serial body; NULL: of another one */
} gpur_lanes_draw;

/* A transition: its first row, and what follows it. */
typedef struct gpur_lanes_transition {
    int64_t slot, id;   /* -1: it is missing */
    int64_t next;       /* slot of the next observation; -1: it is zeros */
    int64_t final;      /* slot in the side ring; -1: it is that of `next` */
    int64_t frame;      /* slot of the newest frame of the first row; with stacks alone, as the next three */
    int64_t next_frame; /* that of the next observation; if it is a final one, that of the step after it */
    unsigned char stack, next_stack; /* GPUR_STACK_* of both observations */
    float reward, discount;
    int32_t steps;
    unsigned char terminated, truncated;
} gpur_lanes_transition;

GPUR_FN gpur_lanes_draw gpur_lanes_draw_of(const gpur_lanes_gather_args *a)
{
    gpur_lanes_draw d;
    d.window = *a->lanes.window;
    d.draw = (int64_t)*a->draw;
    d.whole = a->lanes.state->whole;
    d.parts = (gpur_lanes_parts *)0;
    return d;
}

/* Rows of the window, counted from the oldest one, that row b may be: first, first + stride, and so on. */
typedef struct gpur_lanes_choice {
    int64_t first, stride;
} gpur_lanes_choice;

GPUR_FN gpur_lanes_choice gpur_lanes_choice_of(const gpur_lanes_gather_args *a, int64_t b)
{
    const int is_of_each = a->way == GPUR_LANES_OF_EACH;
    gpur_lanes_choice choice;
    choice.first = is_of_each ? b / (a->batch / a->lanes.lanes) : 0;
    choice.stride = is_of_each ? a->lanes.lanes : 1;
    return choice;
}

GPUR_FN int gpur_lanes_is_whole(const gpur_lanes_gather_args *a, const gpur_lanes_draw *d, int64_t row)
{
    const int64_t slot = gpur_lanes_row_slot(&a->lanes, &d->window, row);
    return (a->lanes.flags[slot] & GPUR_LANE_IS_WHOLE) != 0;
}

/* Row b of a batch of distinct rows, or -1. It is the first whole one of elements b, b + B, b + 2 B, ... of a
 * permutation, so no two rows of the batch meet. */
GPUR_FN int64_t gpur_lanes_draw_distinct(const gpur_lanes_gather_args *a, const gpur_lanes_draw *d, int64_t b)
{
    const gpur_permutation p = gpur_permutation_of(a->seed, a->purpose, (uint64_t)d->draw, (uint64_t)d->window.count);
    for (int64_t at = b; at < d->window.count; at += a->batch) {
        const int64_t row = (int64_t)gpur_permute(&p, (uint64_t)at);
        if (gpur_lanes_is_whole(a, d, row))
            return row;
    }
    return -1;
}

/* The random bits of try number i for row b. */
GPUR_FN gpur_u32x4 gpur_lanes_bits(const gpur_lanes_gather_args *a, const gpur_lanes_draw *d, int64_t b, uint32_t i)
{
    return gpur_random_bits(a->seed, a->purpose | i << 16, (uint64_t)d->draw, (uint32_t)b);
}

GPUR_FN void gpur_lanes_count_parts(const gpur_lanes_gather_args *a, const gpur_lanes_draw *d)
{
    gpur_lanes_parts *const parts = d->parts;
    parts->rows = (d->window.count - 1) / GPUR_LANES_PARTS + 1;
    memset(parts->whole, 0, sizeof parts->whole);
    for (int part = 0; part < GPUR_LANES_PARTS; part++)
        for (int64_t i = 0, row = part * parts->rows; i < parts->rows && row < d->window.count; i++, row++)
            parts->whole[part] += gpur_lanes_is_whole(a, d, row);
}

/* The first row of the part that has whole row number `*number`, which becomes its number there. */
GPUR_FN int64_t gpur_lanes_find_part(const gpur_lanes_gather_args *a, const gpur_lanes_draw *d, int64_t *number)
{
    int part = 0;
    if (d->parts->rows == 0)
        gpur_lanes_count_parts(a, d);
    for (; part < GPUR_LANES_PARTS - 1 && *number >= d->parts->whole[part]; part++)
        *number -= d->parts->whole[part];
    return part * d->parts->rows;
}

/* Row b where whole rows are rare: they are counted, and one of them is drawn; -1: there is none. */
GPUR_FN int64_t gpur_lanes_draw_counted(const gpur_lanes_gather_args *a, const gpur_lanes_draw *d, int64_t b)
{
    const gpur_lanes_choice choice = gpur_lanes_choice_of(a, b);
    const int is_of_all = choice.stride == 1;
    int64_t whole = is_of_all ? d->whole : 0, first = choice.first;
    for (int64_t row = first; !is_of_all && row < d->window.count; row += choice.stride)
        whole += gpur_lanes_is_whole(a, d, row);
    if (whole == 0)
        return -1;
    int64_t before = (int64_t)gpur_random_below(gpur_lanes_bits(a, d, b, GPUR_LANES_TRIES), (uint64_t)whole);
    if (is_of_all && d->parts)
        first = gpur_lanes_find_part(a, d, &before);
    for (int64_t row = first; row < d->window.count; row += choice.stride)
        if (gpur_lanes_is_whole(a, d, row) && before-- == 0)
            return row;
    return -1;
}

/* Row b, or -1. Every whole row is as likely as any other, since rows that are not whole are drawn again. */
GPUR_FN int64_t gpur_lanes_draw_row(const gpur_lanes_gather_args *a, const gpur_lanes_draw *d, int64_t b)
{
    const gpur_lanes_choice choice = gpur_lanes_choice_of(a, b);
    const uint64_t rows = (uint64_t)(d->window.count / choice.stride);
    for (uint32_t i = 0; i < GPUR_LANES_TRIES; i++) {
        const int64_t drawn = (int64_t)gpur_random_below(gpur_lanes_bits(a, d, b, i), rows);
        if (gpur_lanes_is_whole(a, d, choice.first + drawn * choice.stride))
            return choice.first + drawn * choice.stride;
    }
    return gpur_lanes_draw_counted(a, d, b);
}

/* The id of row b, or -1. */
GPUR_FN int64_t gpur_lanes_draw_id(const gpur_lanes_gather_args *a, const gpur_lanes_draw *d, int64_t b)
{
    if (d->whole <= 0)
        return -1;
    const int64_t row =
        a->way == GPUR_LANES_DISTINCT ? gpur_lanes_draw_distinct(a, d, b) : gpur_lanes_draw_row(a, d, b);
    return row < 0 ? -1 : d->window.first_id + row;
}

/* The id of the row that row b of the batch begins with. */
GPUR_FN int64_t gpur_lanes_id_of(const gpur_lanes_gather_args *a, const gpur_lanes_draw *d, int64_t b)
{
    if (a->ids && (!a->redraws || gpur_lanes_find(&a->lanes, &d->window, a->ids[b]) >= 0))
        return a->ids[b];
    return gpur_lanes_draw_id(a, d, b);
}

/* Where the frames of both observations are. */
GPUR_FN void gpur_lanes_find_frames(const gpur_lane_rings *l, gpur_lanes_transition *t)
{
    const int64_t slots = gpur_lanes_frame_slots(l), step = t->id / l->lanes;
    if (t->slot < 0)
        return;
    t->frame = gpur_lanes_frame_slot(l, step) + t->id - step * l->lanes;
    t->next_frame = t->frame + t->steps * l->lanes;
    t->next_frame -= t->next_frame < slots ? 0 : slots;
    t->stack = l->stacks[t->slot];
    t->next_stack = gpur_stack_after(l, l->stacks[gpur_lanes_later(l, t->slot, t->steps - 1)]);
}

/* Follows a lane from a whole row on. */
GPUR_FN gpur_lanes_transition gpur_lanes_follow(const gpur_lanes_gather_args *a, const gpur_lanes_draw *d, int64_t id)
{
    const gpur_lane_rings *const l = &a->lanes;
    const double gamma = (double)a->gamma;
    gpur_lanes_transition t;
    int64_t slot = gpur_lanes_find(l, &d->window, id);
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

/* Where a copy reads frame f of a stack, the oldest first; NULL: zeros. */
GPUR_FN const unsigned char *gpur_lanes_frame(const gpur_lanes_gather_args *a, const gpur_lane_copy *copy,
                                              const gpur_lanes_transition *t, int f)
{
    const int64_t bytes = copy->bytes / copy->stack;
    const int back = gpur_stack_back(copy->is_next ? t->next_stack : t->stack, copy->stack - 1 - f);
    int64_t at = (copy->is_next ? t->next_frame : t->frame) - back * a->lanes.lanes;
    if (t->slot < 0 || back < 0 || (copy->is_next && t->next < 0 && t->final < 0))
        return (const unsigned char *)0;
    if (copy->is_next && t->final >= 0 && back == 0)
        return copy->finals + t->final * bytes;
    at += at < 0 ? gpur_lanes_frame_slots(&a->lanes) : 0;
    return copy->ring + at * bytes;
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

/* Where a copy reads a unit of its value. */
GPUR_FN const unsigned char *gpur_lanes_unit(const gpur_lanes_gather_args *a, const gpur_lane_copy *copy,
                                             const gpur_lanes_transition *t, int32_t unit, int has_stacks)
{
    int32_t frame = 0;
    const unsigned char *from;
    if (!has_stacks || copy->stack == 1) {
        from = gpur_lanes_source(copy, t);
    } else if (copy->is_last) {
        frame = unit % copy->stack, unit /= copy->stack;
        from = gpur_lanes_frame(a, copy, t, frame);
    } else {
        const int32_t units = (int32_t)(copy->bytes >> copy->shift) / copy->stack;
        frame = unit / units, unit -= frame * units;
        from = gpur_lanes_frame(a, copy, t, frame);
    }
    return from ? from + ((int64_t)unit << copy->shift) : from;
}

/* The threads of a warp copy neighboring units, several at a time. */
GPUR_FN void gpur_lanes_copy_units(gpur_thread at, const gpur_lanes_gather_args *a, int64_t b,
                                   const gpur_lanes_transition *t, int has_stacks)
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
            const int32_t of_copy = unit - copy->first_unit;
            const int64_t byte = (int64_t)of_copy << copy->shift;
            moves[n].shift = copy->shift;
            moves[n].from =
                unit < a->units ? gpur_lanes_unit(a, copy, t, of_copy, has_stacks) : (const unsigned char *)0;
            moves[n].to = unit < a->units ? copy->to + b * copy->pitch + byte : (unsigned char *)0;
        }
        gpur_load_units(values, moves);
        gpur_store_units(moves, values);
    }
}

/* The serial body takes tiles of rows through three stages: ids are drawn, rows are followed, and values are copied.
 * Each stage prefetches what the next one reads, and meanwhile works on the tile before. */
enum {
    GPUR_LANES_TILE = 16,
    GPUR_LANES_STAGES = 3,
    GPUR_LANES_LINE = 64,
    GPUR_LANES_PREFETCH = 1024, /* bytes of a value that are prefetched; the processor itself does it for the others */
};

typedef struct gpur_lanes_tile {
    int64_t first;
    int count;
    uint64_t ids[GPUR_LANES_TILE]; /* -1: none */
    gpur_lanes_transition rows[GPUR_LANES_TILE];
} gpur_lanes_tile;

/* Sets the ids that are given, or tried first. */
GPUR_FN void gpur_lanes_tile_ids(const gpur_lanes_gather_args *a, const gpur_lanes_draw *d, gpur_lanes_tile *tile)
{
    if (a->ids) {
        memcpy(tile->ids, a->ids + tile->first, (size_t)tile->count * sizeof *tile->ids);
        return;
    }
    if (a->way != GPUR_LANES_OF_ALL) {
        for (int i = 0; i < tile->count; i++)
            tile->ids[i] = (uint64_t)gpur_lanes_draw_id(a, d, tile->first + i);
        return;
    }
    for (int i = 0; i < GPUR_LANES_TILE; i += GPUR_LANES)
        gpur_random_lanes(a->seed, a->purpose, (uint64_t)d->draw, (uint32_t)(tile->first + i), &tile->ids[i]);
    for (int i = 0; i < tile->count; i++)
        tile->ids[i] = (uint64_t)d->window.first_id + gpur_mulhi_u64(tile->ids[i], (uint64_t)d->window.count);
}

GPUR_FN void gpur_lanes_tile_draw(const gpur_lanes_gather_args *a, const gpur_lanes_draw *d, gpur_lanes_tile *tile)
{
    const gpur_lane_rings *const l = &a->lanes;
    gpur_lanes_tile_ids(a, d, tile);
    for (int i = 0; i < tile->count; i++) {
        const int64_t row = (int64_t)tile->ids[i] - d->window.first_id;
        if (row < 0 || row >= d->window.count)
            continue;
        int64_t slot = gpur_lanes_row_slot(l, &d->window, row);
        for (int32_t step = 0; step < a->n_step; step++, slot = gpur_lanes_later(l, slot, 1)) {
            gpur_prefetch(&l->flags[slot]);
            gpur_prefetch(&l->reward[slot]);
        }
    }
}

GPUR_FN void gpur_lanes_tile_follow(const gpur_lanes_gather_args *a, const gpur_lanes_draw *d, gpur_lanes_tile *tile,
                                    int has_stacks)
{
    for (int i = 0; i < tile->count; i++) {
        int64_t id = (int64_t)tile->ids[i];
        if (a->redraws && gpur_lanes_find(&a->lanes, &d->window, id) < 0)
            id = gpur_lanes_draw_id(a, d, tile->first + i);
        tile->rows[i] = gpur_lanes_follow(a, d, id);
        if (has_stacks)
            gpur_lanes_find_frames(&a->lanes, &tile->rows[i]);
    }
}

/* Of each frame of a stack its beginning. */
GPUR_FN void gpur_lanes_prefetch_stack(const gpur_lanes_gather_args *a, const gpur_lane_copy *copy,
                                       const gpur_lanes_transition *t)
{
    const int64_t bytes = copy->bytes / copy->stack;
    for (int f = 0; f < copy->stack; f++) {
        const unsigned char *const from = gpur_lanes_frame(a, copy, t, f);
        for (int64_t byte = 0; from && byte < bytes && byte < 4 * GPUR_LANES_LINE; byte += GPUR_LANES_LINE)
            gpur_prefetch_l2(from + byte);
    }
}

GPUR_FN void gpur_lanes_prefetch(const gpur_lanes_gather_args *a, const gpur_lanes_transition *t, int has_stacks)
{
    for (int32_t c = 0; c < a->copy_count; c++) {
        if (has_stacks && a->copies[c].stack > 1) {
            gpur_lanes_prefetch_stack(a, &a->copies[c], t);
            continue;
        }
        const unsigned char *const from = gpur_lanes_source(&a->copies[c], t);
        const int64_t bytes = a->copies[c].bytes < GPUR_LANES_PREFETCH ? a->copies[c].bytes : GPUR_LANES_PREFETCH;
        for (int64_t byte = 0; from && byte < bytes; byte += GPUR_LANES_LINE)
            gpur_prefetch_l2(from + byte);
        if (from)
            gpur_prefetch_l2(from + bytes - 1); /* a value need not begin with a cache line */
    }
}

GPUR_FN void gpur_lanes_copy_stack(const gpur_lanes_gather_args *a, const gpur_lane_copy *copy, unsigned char *to,
                                   const gpur_lanes_transition *t)
{
    const unsigned char *frames[GPUR_MAX_FRAME_LINKS / 2];
    const int64_t bytes = copy->bytes / copy->stack;
    for (int f = 0; f < copy->stack; f++)
        frames[f] = gpur_lanes_frame(a, copy, t, f);
    if (copy->is_last) {
        gpur_frames_interleave(to, frames, copy->stack, (int32_t)(bytes >> copy->shift), (int64_t)1 << copy->shift);
        return;
    }
    for (int f = 0; f < copy->stack; f++)
        if (frames[f])
            gpur_copy_value(to + f * bytes, frames[f], bytes);
        else
            memset(to + f * bytes, 0, (size_t)bytes);
}

GPUR_FN void gpur_lanes_copy_row(const gpur_lanes_gather_args *a, int64_t b, const gpur_lanes_transition *t,
                                 int has_stacks)
{
    for (int32_t c = 0; c < a->copy_count; c++) {
        const gpur_lane_copy *const copy = &a->copies[c];
        if (has_stacks && copy->stack > 1) {
            gpur_lanes_copy_stack(a, copy, copy->to + b * copy->pitch, t);
            continue;
        }
        const unsigned char *const from = gpur_lanes_source(copy, t);
        if (from)
            gpur_copy_value(copy->to + b * copy->pitch, from, copy->bytes);
        else
            memset(copy->to + b * copy->pitch, 0, (size_t)copy->bytes);
    }
    gpur_lanes_write(a, b, t);
}

/* Prefetching is spread over the copying, row by row: at once it would take longer. */
GPUR_FN void gpur_lanes_tile_copy(const gpur_lanes_gather_args *a, const gpur_lanes_tile *tile,
                                  const gpur_lanes_tile *next, int has_stacks)
{
    for (int i = 0; i < tile->count || i < next->count; i++) {
        if (i < next->count)
            gpur_lanes_prefetch(a, &next->rows[i], has_stacks);
        if (i < tile->count)
            gpur_lanes_copy_row(a, tile->first + i, &tile->rows[i], has_stacks);
    }
}

GPUR_FN void gpur_lanes_gather_serial(gpur_thread at, const gpur_lanes_gather_args *a, gpur_lanes_draw *d,
                                      int has_stacks)
{
    const gpur_span rows = gpur_block_rows(at, a->batch);
    gpur_lanes_tile tiles[GPUR_LANES_STAGES];
    gpur_lanes_parts parts;
    parts.rows = 0;
    d->parts = &parts;
    for (int i = 0; i < GPUR_LANES_STAGES; i++)
        tiles[i].count = 0;
    for (int64_t i = 0, left = rows.last - rows.first; left > -(GPUR_LANES_STAGES - 1) * GPUR_LANES_TILE; i++) {
        gpur_lanes_tile *const drawn = &tiles[i % GPUR_LANES_STAGES];
        gpur_lanes_tile *const followed = &tiles[(i + GPUR_LANES_STAGES - 1) % GPUR_LANES_STAGES];
        drawn->first = rows.last - left;
        drawn->count = left <= 0 ? 0 : left < GPUR_LANES_TILE ? (int)left : GPUR_LANES_TILE;
        gpur_lanes_tile_draw(a, d, drawn);
        gpur_lanes_tile_follow(a, d, followed, has_stacks);
        gpur_lanes_tile_copy(a, &tiles[(i + 1) % GPUR_LANES_STAGES], followed, has_stacks);
        left -= GPUR_LANES_TILE;
    }
    d->parts = 0; /* they end here */
}

/* has_stacks: some copies are of stacks. It is a constant, so that code for these costs the others no registers. */
GPUR_FN void gpur_lanes_gather_rows(gpur_thread at, const gpur_lanes_gather_args *a, int has_stacks)
{
    gpur_lanes_draw d = gpur_lanes_draw_of(a);
    const gpur_span rows = gpur_warp_rows(at, a->batch);
    if (!gpur_is_parallel()) {
        gpur_lanes_gather_serial(at, a, &d, has_stacks);
        return;
    }
    for (int64_t b = rows.first; b < rows.last; b += rows.step) {
        const int64_t drawn = gpur_lanes_id_of(a, &d, b);
        const int64_t id = (int64_t)gpur_warp_get_u64(at, (uint64_t)drawn, 0); /* read before it is written below */
        gpur_lanes_transition t = gpur_lanes_follow(a, &d, id);
        if (has_stacks)
            gpur_lanes_find_frames(&a->lanes, &t);
        gpur_lanes_copy_units(at, a, b, &t, has_stacks);
        if (gpur_lane(at) == 0)
            gpur_lanes_write(a, b, &t);
    }
}

GPUR_KERNEL(lanes_gather)
{
    gpur_lanes_gather_rows(at, a, 0);
}

GPUR_KERNEL_OF(lanes_gather_stacks, 256)
{
    gpur_lanes_gather_rows(at, a, 1);
}
