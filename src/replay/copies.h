/* SPDX-License-Identifier: MIT */
/* Lists of field copies for the gather and scatter kernels. */
#ifndef GPUR_REPLAY_COPIES_H
#define GPUR_REPLAY_COPIES_H

#include "kernels/kernels.h"

typedef struct gpur_copies {
    gpur_field_copy list[GPUR_MAX_COPIES]; /* (count) */
    int32_t count, units;
} gpur_copies;

/* Adds the copy of a field of `bytes` bytes at `offset` of a row; its values lie `pitch` bytes apart from `array` on.
 */
void gpur_copies_add(gpur_copies *copies, const void *array, int64_t pitch, int64_t offset, int64_t bytes);

/* The same for a scatter of flags, which become 0 and 1 on the way. */
void gpur_copies_add_flags(gpur_copies *copies, const void *array, int64_t pitch, int64_t offset, int64_t bytes);

/* How many rows of so many bytes a block should take at a time: few large ones, so that all blocks have work. */
int32_t gpur_tile_rows(int64_t row_bytes);

#endif
