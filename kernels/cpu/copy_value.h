/* SPDX-License-Identifier: MIT */
/* Copies values of a field by one thread, of any alignment. Every copy has a size that the compiler knows: a call of
 * memcpy with an unknown length takes as long as copying several short values. */
#pragma once

#include "kernels/target/thread.h"

/* Copies n to 2 n bytes in at most two copies of n bytes, which may overlap. */
GPUR_FN void gpur_copy_ends(unsigned char *to, const unsigned char *from, int64_t bytes, size_t n)
{
    memcpy(to, from, n);
    if (bytes > (int64_t)n)
        memcpy(to + bytes - n, from + bytes - n, n);
}

enum { GPUR_LONG_VALUE = 512 };

/* Copies 64 bytes or more. The last copy of 64 bytes may overlap the one before it. */
GPUR_FN void gpur_copy_long(unsigned char *to, const unsigned char *from, int64_t bytes)
{
    if (bytes >= GPUR_LONG_VALUE) {
        memcpy(to, from, (size_t)bytes);
        return;
    }
    for (int64_t i = 0; i + 64 < bytes; i += 64)
        memcpy(to + i, from + i, 64);
    memcpy(to + bytes - 64, from + bytes - 64, 64);
}

GPUR_FN void gpur_copy_value(unsigned char *to, const unsigned char *from, int64_t bytes)
{
    if (bytes >= 64)
        gpur_copy_long(to, from, bytes);
    else if (bytes >= 32)
        gpur_copy_ends(to, from, bytes, 32);
    else if (bytes >= 16)
        gpur_copy_ends(to, from, bytes, 16);
    else if (bytes >= 8)
        gpur_copy_ends(to, from, bytes, 8);
    else if (bytes >= 4)
        gpur_copy_ends(to, from, bytes, 4);
    else if (bytes >= 2)
        gpur_copy_ends(to, from, bytes, 2);
    else
        *to = *from;
}

/* One field of several rows: values of `bytes` bytes, with a pitch for each side. */
typedef struct gpur_column {
    unsigned char *to;
    const unsigned char *from;
    int64_t to_pitch, from_pitch, bytes;
} gpur_column;

GPUR_FN void gpur_copy_values(const gpur_column *c, int64_t bytes, int64_t rows)
{
    unsigned char *to = c->to;
    const unsigned char *from = c->from;
    for (int64_t i = 0; i < rows; i++, to += c->to_pitch, from += c->from_pitch)
        gpur_copy_value(to, from, bytes);
}

/* The most common sizes are constants, so each value is a single copy. */
GPUR_FN void gpur_copy_column(const gpur_column *c, int64_t rows)
{
    if (c->bytes == 1)
        gpur_copy_values(c, 1, rows);
    else if (c->bytes == 4)
        gpur_copy_values(c, 4, rows);
    else if (c->bytes == 8)
        gpur_copy_values(c, 8, rows);
    else if (c->bytes == 16)
        gpur_copy_values(c, 16, rows);
    else
        gpur_copy_values(c, c->bytes, rows);
}

/* The same for flags: a byte other than 0 becomes 1. */
GPUR_FN void gpur_copy_flags(const gpur_column *c, int64_t rows)
{
    unsigned char *to = c->to;
    const unsigned char *from = c->from;
    for (int64_t i = 0; i < rows; i++, to += c->to_pitch, from += c->from_pitch)
        for (int64_t j = 0; j < c->bytes; j++)
            to[j] = from[j] != 0;
}
