/* SPDX-License-Identifier: MIT */
/* Moving fields between rows and arrays: a GPU's block shares the units of a tile of rows, a CPU moves value by value.
 */
#ifndef GPUR_FIELD_COPY_H
#define GPUR_FIELD_COPY_H

#include "args_replay.h"
#include "place.h"

GPUR_FN void gpur_move_unit(unsigned char *to, const unsigned char *from, int32_t shift)
{
    if (shift == 4)
        memcpy(__builtin_assume_aligned(to, 16), __builtin_assume_aligned(from, 16), 16);
    else if (shift == 3)
        memcpy(__builtin_assume_aligned(to, 8), __builtin_assume_aligned(from, 8), 8);
    else if (shift == 2)
        memcpy(__builtin_assume_aligned(to, 4), __builtin_assume_aligned(from, 4), 4);
    else if (shift == 1)
        memcpy(__builtin_assume_aligned(to, 2), __builtin_assume_aligned(from, 2), 2);
    else
        *to = *from;
}

/* The same of flags, up to four at a time: a byte other than 0 becomes 1. The bits of each byte are gathered in its
 * lowest one; what comes over from the byte above stays in the others. */
GPUR_FN void gpur_move_flag_unit(unsigned char *to, const unsigned char *from, int32_t shift)
{
    const int bytes = 1 << shift, step = bytes < 4 ? 1 : 4;
    for (int i = 0; i < bytes; i += step) {
        uint32_t x = 0;
        memcpy(&x, from + i, (size_t)step);
        x |= x >> 4;
        x |= x >> 2;
        x |= x >> 1;
        x &= 0x01010101u;
        memcpy(to + i, &x, (size_t)step);
    }
}

GPUR_FN void gpur_zero_unit(unsigned char *to, int32_t shift)
{
    for (int i = 0; i < 1 << shift; i++)
        to[i] = 0;
}

/* A unit of a row: which field it belongs to, and where it lies there. */
typedef struct gpur_unit_place {
    const gpur_field_copy *copy;
    int64_t byte;
} gpur_unit_place;

GPUR_FN gpur_unit_place gpur_find_unit(const gpur_field_copy *copies, int32_t count, int32_t unit)
{
    gpur_unit_place place;
    int32_t c = 0;
    while (c + 1 < count && unit >= copies[c + 1].first_unit)
        c++;
    place.copy = &copies[c];
    place.byte = (int64_t)(unit - copies[c].first_unit) << copies[c].shift;
    return place;
}

#endif
