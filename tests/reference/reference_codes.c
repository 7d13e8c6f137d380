/* SPDX-License-Identifier: MIT */
#include "reference_codes.h"

#include <string.h>

enum { SPAN = 512, BLOCK = 64, GROUP = 8 };

/* Code `part` of word number `word` of the words from byte `first` on; -1: beyond the end. */
static int code(const unsigned char *packed, int64_t length, int64_t first, int64_t word, int part)
{
    const int64_t at = first + 2 * word;
    if (at + 2 > length)
        return -1;
    return (packed[at] >> part & 1) + 2 * (packed[at + 1] >> part & 1);
}

/* The codes that are 3 of all words from `first` to `end`. */
static int64_t coded(const unsigned char *packed, int64_t length, int64_t first, int64_t end)
{
    int64_t count = 0;
    for (int64_t i = 0; i < 8 * (end - first) / 2; i++)
        count += code(packed, length, first, i / 8, (int)(i % 8)) == 3;
    return count;
}

static unsigned char byte_at(const unsigned char *frame, int64_t at)
{
    return at < 0 ? 0 : frame[at];
}

int reference_unpack(const unsigned char *packed, int64_t length, const unsigned char *key, int64_t padded,
                     int64_t stride, unsigned char *to)
{
    const int64_t blocks = (padded + SPAN - 1) / SPAN * 2;
    const int64_t groups = blocks + 2 * coded(packed, length, 0, blocks);
    const int64_t bytes = groups > length ? length + 1 : groups + 2 * coded(packed, length, blocks, groups);
    if (bytes > length || bytes + coded(packed, length, groups, bytes) != length)
        return 0;
    int64_t block = -1, group = -1, stored = bytes;
    for (int64_t i = 0; i < padded; i++) {
        int is = code(packed, length, 0, i / SPAN, (int)(i / BLOCK % 8));
        const int in_coded_block = is == 3;
        block += in_coded_block && i % BLOCK == 0;
        if (in_coded_block)
            is = code(packed, length, blocks, block, (int)(i / GROUP % 8));
        const int in_coded_group = in_coded_block && is == 3;
        group += in_coded_group && i % GROUP == 0;
        if (in_coded_group)
            is = code(packed, length, groups, group, (int)(i % GROUP));
        to[i] = is == 0   ? key ? key[i] : byte_at(to, i - 3 * stride)
                  : is == 1 ? byte_at(to, i - stride)
                : is == 2 ? byte_at(to, i - 1)
                          : packed[stored++];
    }
    return 1;
}
