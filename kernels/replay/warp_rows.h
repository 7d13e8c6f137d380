/* SPDX-License-Identifier: MIT */
/* Copies whole rows of the ring by warps. A lane copies the same few units of every row, and finds them once: where a
 * unit lies in a row of the ring, and in which array it goes. Rows of more units than GPUR_WARP_UNITS are copied in row
 * tiles (kernels/replay/gather.h). */
#pragma once

#include "kernels/lib/collective.h"
#include "kernels/replay/field_copy.h"

enum {
    GPUR_LANE_UNITS = GPUR_WARP_UNITS / GPUR_WARP,
    GPUR_ROWS_AT_ONCE = 2, /* rows that a warp loads before it stores the first */
};

typedef struct gpur_lane_unit {
    unsigned char *to; /* in the batch's first row; NULL: there is no such unit */
    int64_t pitch;     /* from there to the same unit of the next row */
    int32_t offset;    /* in a row of the ring */
    int32_t shift;     /* a unit is 1 << shift bytes */
} gpur_lane_unit;

/* What a lane copies of each row. */
typedef struct gpur_lane_units {
    gpur_lane_unit unit[GPUR_LANE_UNITS];
} gpur_lane_units;

/* Lane l has units l, l + GPUR_WARP, ... of a row. */
GPUR_FN void gpur_lane_units_of(gpur_thread at, const gpur_gather_args *a, gpur_lane_units *units)
{
    int32_t c[GPUR_LANE_UNITS] = {0};
    for (int32_t k = 1; k < a->copy_count; k++)
        for (int n = 0; n < GPUR_LANE_UNITS; n++)
            c[n] += gpur_lane(at) + n * GPUR_WARP >= a->copies[k].first_unit;
    for (int n = 0; n < GPUR_LANE_UNITS; n++) {
        const gpur_field_copy *const copy = &a->copies[c[n]];
        const int32_t unit = gpur_lane(at) + n * GPUR_WARP, byte = (unit - copy->first_unit) << copy->shift;
        units->unit[n].to = unit < a->units ? copy->array + byte : (unsigned char *)0;
        units->unit[n].pitch = copy->array_pitch;
        units->unit[n].offset = copy->offset + byte;
        units->unit[n].shift = copy->shift;
    }
}

/* The rows that a warp has in one round of its loop: `rows`, from row `first` of the batch on. */
typedef struct gpur_warp_round {
    int64_t first;
    int rows;
} gpur_warp_round;

/* log2 of the rows of a round: as many as the warps of the grid need to finish in one, and at most one for each lane,
 * since a lane draws one. */
GPUR_FN int gpur_round_shift(gpur_thread at, int64_t batch)
{
    const int64_t warps = at.blocks * (at.threads / GPUR_WARP);
    int shift = 0;
    while (warps << shift < batch && 1 << shift < GPUR_WARP)
        shift++;
    return shift;
}

GPUR_FN int64_t gpur_rounds_of(int64_t batch, int shift)
{
    return (batch + ((int64_t)1 << shift) - 1) >> shift;
}

GPUR_FN gpur_warp_round gpur_round_of(int64_t batch, int shift, int64_t number)
{
    gpur_warp_round round;
    round.first = number << shift;
    const int64_t left = batch - round.first;
    round.rows = left < (int64_t)1 << shift ? (int)left : 1 << shift;
    return round;
}

/* Copies up to GPUR_ROWS_AT_ONCE rows to rows b, b + 1, ... of the batch. `slot` -1: zeros. */
GPUR_FN void gpur_copy_rows_by_warp(const gpur_gather_args *a, const gpur_lane_units *units, int64_t b,
                                    const int64_t *slot, int rows)
{
    gpur_u32x4 values[GPUR_ROWS_AT_ONCE][GPUR_LANE_UNITS];
    for (int r = 0; r < GPUR_ROWS_AT_ONCE; r++)
        for (int n = 0; n < GPUR_LANE_UNITS; n++) {
            const gpur_lane_unit *const unit = &units->unit[n];
            const int there = unit->to && r < rows && slot[r] >= 0;
            const unsigned char *const from = a->ring + slot[r] * a->pitch + unit->offset;
            values[r][n] = gpur_load_unit(there ? from : (const unsigned char *)0, unit->shift);
        }
    for (int r = 0; r < GPUR_ROWS_AT_ONCE; r++)
        for (int n = 0; n < GPUR_LANE_UNITS; n++)
            if (units->unit[n].to && r < rows)
                gpur_store_unit(units->unit[n].to + (b + r) * units->unit[n].pitch, values[r][n], units->unit[n].shift);
}

/* Copies the rows of a round; lane r of the warp has the slot of row r. */
GPUR_FN void gpur_copy_round(gpur_thread at, const gpur_gather_args *a, const gpur_lane_units *units,
                             gpur_warp_round round, int64_t slot)
{
    for (int first = 0; first < round.rows; first += GPUR_ROWS_AT_ONCE) {
        int64_t slots[GPUR_ROWS_AT_ONCE];
        for (int r = 0; r < GPUR_ROWS_AT_ONCE; r++)
            slots[r] = (int64_t)gpur_warp_get_u64(at, (uint64_t)slot, (first + r) % GPUR_WARP);
        gpur_copy_rows_by_warp(a, units, round.first + first, slots, round.rows - first);
    }
}
