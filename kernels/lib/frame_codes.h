/* SPDX-License-Identifier: MIT */
/*
 * The format of packed frames, and how eight bytes of one are unpacked.
 *
 * A frame is padded with zeros to a multiple of 8 bytes. 8 bytes are a group, 8 groups a block, 8 blocks a span. A code
 * of two bits says of each block, each group of a coded block, and each byte of a coded group, what it is:
 *
 *   0  reference  the bytes at the same place of the key frame; without a key those 3 strides before
 *   1  above      the bytes one stride before
 *   2  left       the byte before, repeated
 *   3  coded      a block, a group: its parts have codes of their own; a byte: it is stored
 *
 * Bytes before the frame are 0. A stride is a number of lines of an image, at least a block, so a group depends on
 * others of its block by `left` alone. A word of 16 bits has the codes of 8 neighbors: bit i is the lower bit of code
 * i, bit 8 + i the upper one. A packed frame is the words of its spans, of its coded blocks, of its coded groups, and
 * then its stored bytes, each in the order of the frame. Its length follows from the words.
 */
#pragma once

#include "kernels/target/thread.h"

enum {
    GPUR_CODE_REFERENCE = 0,
    GPUR_CODE_ABOVE = 1,
    GPUR_CODE_LEFT = 2,
    GPUR_CODE_CODED = 3,

    GPUR_GROUP_BYTES = 8,
    GPUR_CODED_BLOCK_BYTES = 64,
    GPUR_CODED_SPAN_BYTES = 512,
    GPUR_MAX_STRIDE = 312,    /* three, and a block, lie in the window of a GPU (kernels/replay/rebuild_frames.h) */
    GPUR_REFERENCE_LINES = 3, /* strides from a byte to its reference, where there is no key */
};

#define GPUR_BYTE_ONES 0x0101010101010101ull
#define GPUR_BYTE_LOW_BITS 0x7f7f7f7f7f7f7f7full

/* Bytes from a byte to the one above it: as many lines as make a block; where one line is too long, a block. */
GPUR_FN int32_t gpur_code_stride(int64_t line_bytes)
{
    if (line_bytes < 1 || line_bytes > GPUR_MAX_STRIDE)
        return GPUR_CODED_BLOCK_BYTES;
    return (int32_t)((GPUR_CODED_BLOCK_BYTES + line_bytes - 1) / line_bytes * line_bytes);
}

GPUR_FN int32_t gpur_code_spans(int64_t padded_bytes)
{
    return (int32_t)((padded_bytes + GPUR_CODED_SPAN_BYTES - 1) / GPUR_CODED_SPAN_BYTES);
}

/* Number of bits that are set in the lower half. */
GPUR_FN uint32_t gpur_count_bits(uint32_t x)
{
    x = (x & 0x5555) + (x >> 1 & 0x5555);
    x = (x & 0x3333) + (x >> 2 & 0x3333);
    x = (x & 0x0f0f) + (x >> 4 & 0x0f0f);
    return (x & 0xff) + (x >> 8);
}

GPUR_FN uint32_t gpur_word_at(const unsigned char *from)
{
    uint16_t word;
    memcpy(&word, __builtin_assume_aligned(from, sizeof word), sizeof word);
    return word;
}

/* Those of the 8 parts that are coded, as bits. */
GPUR_FN uint32_t gpur_coded_parts(uint32_t word)
{
    return word & word >> 8 & 0xff;
}

GPUR_FN uint32_t gpur_code_of(uint32_t word, int part)
{
    return (word >> part & 1) | (word >> (8 + part) & 1) << 1;
}

/* The word of 8 parts that all have one code. */
GPUR_FN uint32_t gpur_word_of(uint32_t code)
{
    return (code & 1) * 0xff + (code >> 1) * 0xff00;
}

/* 0xff for each bit that is set. */
GPUR_FN uint64_t gpur_bytes_of_bits(uint32_t bits)
{
    const uint64_t alone = (bits & 0xff) * GPUR_BYTE_ONES & 0x8040201008040201ull;
    return (((alone + GPUR_BYTE_LOW_BITS) & ~GPUR_BYTE_LOW_BITS) >> 7) * 0xff;
}

/* The lowest bytes of `bytes`, in their order, at those places where `mask` has 0xff. */
GPUR_FN uint64_t gpur_spread_bytes(uint64_t bytes, uint64_t mask)
{
    const uint64_t bits = (mask & 8 * GPUR_BYTE_ONES) * GPUR_BYTE_ONES << 8; /* of the bytes before each place */
    uint64_t spread = 0;
    for (int i = 0; i < 8; i++)
        spread |= (bytes >> (bits >> 8 * i & 63) & 0xff) << 8 * i;
    return spread & mask;
}

/* Byte i is the lowest of 8 bytes where bit i is set. */
GPUR_FN uint64_t gpur_group_of_bits(uint32_t bits)
{
    return gpur_bytes_of_bits(bits) & GPUR_BYTE_ONES;
}

/* A group while the byte before it may be unknown. */
typedef struct gpur_open_group {
    uint64_t bytes; /* 0 where they are those to the left */
    uint64_t left;  /* 0xff where they are */
} gpur_open_group;

GPUR_FN gpur_open_group gpur_open_group_of(uint32_t codes, uint64_t reference, uint64_t above, uint64_t stored)
{
    const uint64_t lower = gpur_bytes_of_bits(codes), upper = gpur_bytes_of_bits(codes >> 8);
    gpur_open_group group;
    group.bytes = (reference & ~lower & ~upper) | (above & lower & ~upper) | gpur_spread_bytes(stored, lower & upper);
    group.left = upper & ~lower;
    return group;
}

/* The group, where `before` is the byte before it. Runs are filled in steps of 1, 2 and 4 bytes. */
GPUR_FN uint64_t gpur_close_group(gpur_open_group group, uint32_t before)
{
    uint64_t bytes = group.bytes | (group.left & before & 0xff), open = group.left & ~0xffull;
    bytes |= bytes << 8 & open;
    open &= open << 8;
    bytes |= bytes << 16 & open;
    open &= open << 16;
    return bytes | (bytes << 32 & open);
}
