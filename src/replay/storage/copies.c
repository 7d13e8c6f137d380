/* SPDX-License-Identifier: MIT */
#include "replay/storage/copies.h"

#include <assert.h>

enum { WIDEST_SHIFT = 4 };

/* log2 of the widest unit, 1 to 16 bytes, that divides all four numbers. Rows of the ring start at multiples of 32
 * bytes or more, so the offset in a row stands for the address. */
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
    assert(copies->count < GPUR_MAX_ROW_COPIES);
    const gpur_field_copy copy = {
        .array = (unsigned char *)(uintptr_t)array, /* the scatter kernel only reads it */
        .array_pitch = pitch,
        .offset = (int32_t)offset,
        .units = (int32_t)(bytes >> shift),
        .first_unit = copies->units,
        .shift = (int16_t)shift,
    };
    copies->list[copies->count++] = copy;
    copies->units += copy.units;
}

int32_t gpur_copies_launches(const gpur_copies *copies)
{
    const int32_t launches = (copies->count + GPUR_MAX_LAUNCH_COPIES - 1) / GPUR_MAX_LAUNCH_COPIES;
    return launches > 1 ? launches : 1;
}

gpur_copies_range gpur_copies_launch(const gpur_copies *copies, int32_t launch, gpur_field_copy *to)
{
    const int32_t first = launch * GPUR_MAX_LAUNCH_COPIES, left = copies->count - first;
    gpur_copies_range range = {.count = left < GPUR_MAX_LAUNCH_COPIES ? left : GPUR_MAX_LAUNCH_COPIES};
    for (int32_t c = 0; c < range.count; c++) {
        to[c] = copies->list[first + c];
        to[c].first_unit = range.units;
        range.units += to[c].units;
    }
    return range;
}
