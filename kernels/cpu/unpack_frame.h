/* SPDX-License-Identifier: MIT */
/* Unpacks a frame in one thread. Whatever the packed bytes are, nothing is read or written outside of what is said
 * here. */
#pragma once

#include "kernels/lib/frame_codes.h"

GPUR_FN uint64_t gpur_load_group(const unsigned char *from)
{
    uint64_t group;
    memcpy(&group, from, sizeof group);
    return group;
}

GPUR_FN void gpur_store_group(unsigned char *to, uint64_t group)
{
    memcpy(to, &group, sizeof group);
}

GPUR_FN int64_t gpur_count_coded(const unsigned char *words, int64_t count)
{
    int64_t coded = 0;
    for (int64_t i = 0; i < count; i++)
        coded += gpur_count_bits(gpur_coded_parts(gpur_word_at(words + 2 * i)));
    return coded;
}

/* What of a packed frame is next. */
typedef struct gpur_frame_reader {
    const unsigned char *spans, *blocks, *groups, *stored;
    int has_key;
} gpur_frame_reader;

/* Returns 0 if the length of a packed frame is not that which its words need. */
GPUR_FN int gpur_frame_reader_open(gpur_frame_reader *r, const unsigned char *packed, int64_t length, int64_t padded)
{
    int64_t left = length - 2 * (int64_t)gpur_code_spans(padded);
    r->spans = packed;
    if (left < 0)
        return 0;
    const int64_t blocks = gpur_count_coded(r->spans, gpur_code_spans(padded));
    r->blocks = packed + (length - left);
    left -= 2 * blocks;
    if (left < 0)
        return 0;
    const int64_t groups = gpur_count_coded(r->blocks, blocks);
    r->groups = packed + (length - left);
    left -= 2 * groups;
    if (left < 0)
        return 0;
    r->stored = packed + (length - left);
    return gpur_count_coded(r->groups, groups) == left;
}

GPUR_FN void gpur_unpack_group(gpur_frame_reader *r, uint32_t code, int32_t stride, unsigned char *to)
{
    const uint64_t above = gpur_load_group(to - stride);
    if (code == GPUR_CODE_ABOVE || code == GPUR_CODE_LEFT) {
        gpur_store_group(to, code == GPUR_CODE_ABOVE ? above : to[-1] * GPUR_BYTE_ONES);
        return;
    }
    const uint32_t codes = gpur_word_at(r->groups);
    const gpur_open_group group = gpur_open_group_of(codes, gpur_load_group(to), above, gpur_load_group(r->stored));
    r->groups += 2;
    r->stored += gpur_count_bits(gpur_coded_parts(codes));
    gpur_store_group(to, gpur_close_group(group, to[-1]));
}

/* `bytes` bytes of a block; all 64 but at the end of a frame. Sizes that the compiler knows are copied at once. */
GPUR_FN void gpur_unpack_block(gpur_frame_reader *r, uint32_t code, const unsigned char *reference, int32_t stride,
                               unsigned char *to, int64_t bytes)
{
    const unsigned char *const from = code == GPUR_CODE_ABOVE ? to - stride : reference;
    if (code == GPUR_CODE_LEFT) {
        memset(to, to[-1], (size_t)bytes);
        return;
    }
    if (bytes == GPUR_CODED_BLOCK_BYTES)
        memcpy(to, from, GPUR_CODED_BLOCK_BYTES);
    else
        memcpy(to, from, (size_t)bytes);
    if (code != GPUR_CODE_CODED)
        return;
    const uint32_t word = gpur_word_at(r->blocks);
    uint32_t others = (word | word >> 8) & ((1u << bytes / GPUR_GROUP_BYTES) - 1);
    r->blocks += 2;
    for (; others != 0; others &= others - 1) {
        const int group = gpur_lowest_bit(others);
        gpur_unpack_group(r, gpur_code_of(word, group), stride, to + group * GPUR_GROUP_BYTES);
    }
}

/* `bytes` bytes of a span; all 512 but at the end of a frame. */
GPUR_FN void gpur_unpack_span(gpur_frame_reader *r, const unsigned char *reference, int32_t stride, unsigned char *to,
                              int64_t bytes)
{
    uint32_t word = gpur_word_at(r->spans);
    r->spans += 2;
    if (word == 0 && bytes == GPUR_CODED_SPAN_BYTES && r->has_key) {
        memcpy(to, reference, GPUR_CODED_SPAN_BYTES);
        return;
    }
    for (int64_t first = 0; first < bytes; first += GPUR_CODED_BLOCK_BYTES, word >>= 1) {
        const int64_t left = bytes - first;
        gpur_unpack_block(r, gpur_code_of(word, 0), reference + first, stride, to + first,
                          left < GPUR_CODED_BLOCK_BYTES ? left : GPUR_CODED_BLOCK_BYTES);
    }
}

/*
 * Unpacks a frame of `padded` bytes, a multiple of 8. Returns 0, and may have written any of them, if its length is not
 * that which its words need.
 *
 *   packed     at an even address; 8 bytes behind its `length` may be read, too
 *   key        the unpacked key frame, or NULL
 *   to         behind at least 3 strides of zeros
 */
GPUR_FN int gpur_unpack_frame(const unsigned char *packed, int64_t length, const unsigned char *key, int64_t padded,
                              int32_t stride, unsigned char *to)
{
    gpur_frame_reader r;
    const unsigned char *const reference = key ? key : to - GPUR_REFERENCE_LINES * stride;
    if (!gpur_frame_reader_open(&r, packed, length, padded))
        return 0;
    r.has_key = key != 0;
    for (int64_t span = 0; span < padded; span += GPUR_CODED_SPAN_BYTES) {
        const int64_t left = padded - span;
        gpur_unpack_span(&r, reference + span, stride, to + span,
                         left < GPUR_CODED_SPAN_BYTES ? left : GPUR_CODED_SPAN_BYTES);
    }
    return 1;
}
