/* SPDX-License-Identifier: MIT */
/* Lists of field copies for the gather and scatter kernels. */
#ifndef GPUR_REPLAY_STORAGE_COPIES_H
#define GPUR_REPLAY_STORAGE_COPIES_H

#include "gpureplay/replay.h"
#include "kernels/kernels.h"

enum {
    GPUR_MOST_COPIES = GPUR_MAX_FIELDS + 1, /* every field, and a stored discount once more */
    GPUR_COPY_PARTS = (GPUR_MOST_COPIES + GPUR_MAX_COPIES - 1) / GPUR_MAX_COPIES, /* launches that copy so many */
};

/* An empty list has a count and units of 0, and nothing in `list` that is read. */
typedef struct gpur_copies {
    int32_t count, units;
    gpur_field_copy list[GPUR_MOST_COPIES]; /* (count) */
} gpur_copies;

/* Adds the copy of a field of `bytes` bytes at `offset` of a row; its values lie `pitch` bytes apart from `array` on.
 */
void gpur_copies_add(gpur_copies *copies, const void *array, int64_t pitch, int64_t offset, int64_t bytes);

/* The copies of one launch. */
typedef struct gpur_copies_range {
    int32_t count, units; /* of the copies; units of one row */
} gpur_copies_range;

/* How many launches copy all of them, 1 at least. */
int32_t gpur_copies_parts(const gpur_copies *copies);

/* Writes what the launch `part` copies, and its units counted from 0, to `to`, of GPUR_MAX_COPIES. */
gpur_copies_range gpur_copies_part(const gpur_copies *copies, int32_t part, gpur_field_copy *to);

/* The same for a scatter of flags, which become 0 and 1 on the way. */
void gpur_copies_add_flags(gpur_copies *copies, const void *array, int64_t pitch, int64_t offset, int64_t bytes);

/* How many rows of so many bytes a block should take at a time: few large ones, so that all blocks have work. */
int32_t gpur_tile_rows(int64_t row_bytes);

#endif
