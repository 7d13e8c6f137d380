/* SPDX-License-Identifier: MIT */
/* Lists of field copies for the gather and scatter kernels. */
#pragma once

#include "gpureplay/replay.h"
#include "kernels/kernels.h"

enum {
    GPUR_MAX_ROW_COPIES = GPUR_MAX_FIELDS + 1, /* every field, and a stored discount a second time */
    GPUR_COPY_LAUNCHES = (GPUR_MAX_ROW_COPIES + GPUR_MAX_LAUNCH_COPIES - 1) / GPUR_MAX_LAUNCH_COPIES,
};

/* A list of copies. An empty list has count and units 0; its `list` need not be initialized. */
typedef struct gpur_copies {
    int32_t count, units;                      /* units: of one row, over all copies */
    gpur_field_copy list[GPUR_MAX_ROW_COPIES]; /* (count) */
} gpur_copies;

/* Adds the copy of a field of `bytes` bytes at `offset` of each row, to or from an array whose values are `pitch` bytes
 * apart. */
void gpur_copies_add(gpur_copies *copies, const void *array, int64_t pitch, int64_t offset, int64_t bytes);

/* The copies of one kernel launch. */
typedef struct gpur_copies_range {
    int32_t count, units; /* units: of one row, over these copies */
} gpur_copies_range;

/* Number of kernel launches that all copies take, at least 1. */
int32_t gpur_copies_launches(const gpur_copies *copies);

/* Writes the copies of launch number `launch` to `to` (GPUR_MAX_LAUNCH_COPIES); first_unit counts from 0 in each
 * launch. */
gpur_copies_range gpur_copies_launch(const gpur_copies *copies, int32_t launch, gpur_field_copy *to);

/* Height of a row tile: how many rows of `row_bytes` bytes a thread block handles at a time. Tiles of large rows have
 * few rows, so that all blocks have work. */
int32_t gpur_tile_rows(int64_t row_bytes);
