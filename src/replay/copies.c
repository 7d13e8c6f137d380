/* SPDX-License-Identifier: MIT */
#include "replay/copies.h"

#include <assert.h>

enum { WIDEST_SHIFT = 4 };

/* Rows start on multiples of 64 bytes, so an offset is as good as an address. */
static int32_t widest_shift(const void *array, int64_t pitch, int64_t offset, int64_t bytes)
{
    const uint64_t all = (uint64_t)(uintptr_t)array | (uint64_t)pitch | (uint64_t)offset | (uint64_t)bytes;
    int32_t shift = 0;
    while (shift < WIDEST_SHIFT && (all >> shift & 1) == 0)
        shift++;
    return shift;
}

void gpur_copies_add(gpur_copies *copies, const void *array, int64_t pitch, int64_t offset, int64_t bytes)
{
    const int32_t shift = widest_shift(array, pitch, offset, bytes);
    assert(copies->count < GPUR_MOST_COPIES);
    const gpur_field_copy copy = {
        .array = (unsigned char *)(uintptr_t)array, /* a scatter only reads it */
        .array_pitch = pitch,
        .offset = (int32_t)offset,
        .units = (int32_t)(bytes >> shift),
        .first_unit = copies->units,
        .shift = (int16_t)shift,
    };
    copies->list[copies->count++] = copy;
    copies->units += copy.units;
}

int32_t gpur_copies_parts(const gpur_copies *copies)
{
    return copies->count <= GPUR_MAX_COPIES ? 1 : (copies->count + GPUR_MAX_COPIES - 1) / GPUR_MAX_COPIES;
}

gpur_copies_range gpur_copies_part(const gpur_copies *copies, int32_t part, gpur_field_copy *to)
{
    const int32_t first = part * GPUR_MAX_COPIES, left = copies->count - first;
    gpur_copies_range range = {.count = left < GPUR_MAX_COPIES ? left : GPUR_MAX_COPIES};
    for (int32_t c = 0; c < range.count; c++) {
        to[c] = copies->list[first + c];
        to[c].first_unit = range.units;
        range.units += to[c].units;
    }
    return range;
}

void gpur_copies_add_flags(gpur_copies *copies, const void *array, int64_t pitch, int64_t offset, int64_t bytes)
{
    gpur_copies_add(copies, array, pitch, offset, bytes);
    copies->list[copies->count - 1].flags = 1;
}

int32_t gpur_tile_rows(int64_t row_bytes)
{
    const int64_t rows = GPUR_TILE_BYTES / row_bytes;
    return rows < 1 ? 1 : rows > GPUR_TILE ? GPUR_TILE : (int32_t)rows;
}
