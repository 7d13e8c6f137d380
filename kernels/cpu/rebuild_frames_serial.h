/* SPDX-License-Identifier: MIT */
/* Serial version of rebuild_frames. Successive frames mostly have the same key, which is rebuilt once for a row. */
#pragma once

#include "kernels/args_frames.h"
#include "kernels/cpu/unpack_frame.h"

/* The packed frame of a link, if it is one and its bytes lie in the ring; else NULL. */
GPUR_FN const gpur_packed_frame *gpur_packed_at(const gpur_rebuild_frames_args *a, uint32_t link)
{
    if (link - 1 >= a->slots)
        return (const gpur_packed_frame *)0;
    const gpur_packed_frame *const frame = &a->packed[link - 1];
    const int64_t first = (int64_t)frame->place * GPUR_PACKED_UNIT, padded = a->padded_bytes;
    const int64_t groups = padded / GPUR_GROUP_BYTES, length = frame->length;
    const int64_t wanted = frame->kind == GPUR_PACKED_RAW ? padded : groups;
    const int has_length = frame->kind == GPUR_PACKED_CODES || length == wanted;
    const int fits = first + length + GPUR_PACKED_UNIT <= a->ring_bytes;
    return frame->kind < GPUR_PACKED_KINDS && has_length && fits ? frame : (const gpur_packed_frame *)0;
}

/* The key of a frame that has one, if it is one that has none itself; else NULL. */
GPUR_FN const gpur_packed_frame *gpur_packed_key(const gpur_rebuild_frames_args *a, const gpur_packed_frame *frame)
{
    const gpur_packed_frame *const key = gpur_packed_at(a, frame->key);
    return key && key->key == 0 ? key : (const gpur_packed_frame *)0;
}

GPUR_FN void gpur_expand_bits(const unsigned char *bits, int64_t padded, unsigned char *to)
{
    for (int64_t i = 0; i < padded / GPUR_GROUP_BYTES; i++)
        gpur_store_group(to + i * GPUR_GROUP_BYTES, gpur_group_of_bits(bits[i]));
}

/* Rebuilds a frame; zeros, if there is none, or if its bytes cannot be right. */
GPUR_FN void gpur_rebuild_frame(const gpur_rebuild_frames_args *a, const gpur_packed_frame *frame,
                                const unsigned char *key, unsigned char *to)
{
    const int32_t before = GPUR_REFERENCE_LINES * a->stride;
    const unsigned char *const from = frame ? a->ring + (int64_t)frame->place * GPUR_PACKED_UNIT : a->ring;
    if (frame && frame->kind == GPUR_PACKED_RAW) {
        memcpy(to, from, (size_t)a->padded_bytes);
        return;
    }
    if (frame && frame->kind == GPUR_PACKED_BITS) {
        gpur_expand_bits(from, a->padded_bytes, to);
        return;
    }
    memset(to - before, 0, (size_t)before);
    if (!frame || !gpur_unpack_frame(from, frame->length, key, a->padded_bytes, a->stride, to))
        memset(to, 0, (size_t)a->padded_bytes);
}

/* The frames of a row that are rebuilt, and the key in its last place. */
typedef struct gpur_rebuilt_row {
    const uint32_t *links;
    unsigned char *frames;
    uint32_t key; /* link to it; 0: none yet */
} gpur_rebuilt_row;

/* The first j of those before `end` with this link; or `end`. */
GPUR_FN int32_t gpur_first_with_link(const uint32_t *links, int32_t end, uint32_t link)
{
    int32_t j = 0;
    while (j < end && links[j] != link)
        j++;
    return j;
}

/* A rebuilt key for frame j of the row. If the row has it as a frame, too, it was mostly rebuilt as that. */
GPUR_FN const unsigned char *gpur_rebuild_key(const gpur_rebuild_frames_args *a, gpur_rebuilt_row *row, int32_t j,
                                              const gpur_packed_frame *frame)
{
    const int32_t same = gpur_first_with_link(row->links, j, frame->key);
    unsigned char *const last = row->frames + a->count * a->pitch;
    if (same < j)
        return row->frames + same * a->pitch;
    if (row->key != frame->key)
        gpur_rebuild_frame(a, gpur_packed_key(a, frame), (const unsigned char *)0, last);
    row->key = frame->key;
    return last;
}

GPUR_FN void gpur_rebuild_link(const gpur_rebuild_frames_args *a, gpur_rebuilt_row *row, int32_t j)
{
    const gpur_packed_frame *const frame = gpur_packed_at(a, row->links[j]);
    const int has_key = frame && frame->kind == GPUR_PACKED_CODES && frame->key != 0;
    const int is_right = frame && (!has_key || gpur_packed_key(a, frame));
    const unsigned char *const key = has_key && is_right ? gpur_rebuild_key(a, row, j, frame) : (unsigned char *)0;
    gpur_rebuild_frame(a, is_right ? frame : (const gpur_packed_frame *)0, key, row->frames + j * a->pitch);
}

GPUR_FN void gpur_rebuild_row_serial(const gpur_rebuild_frames_args *a, int64_t b)
{
    gpur_rebuilt_row row;
    const int64_t first = b * (a->count + 1);
    row.links = a->links + b * a->count;
    row.frames = a->frames + first * a->pitch;
    row.key = 0;
    for (int32_t j = 0; j < a->count; j++) {
        const int32_t same = gpur_first_with_link(row.links, j, row.links[j]);
        const int is_link = row.links[j] - 1 < a->slots;
        a->rebuilt[b * a->count + j] = is_link ? (uint32_t)(first + same) + 1 : 0;
        if (is_link && same == j)
            gpur_rebuild_link(a, &row, j);
    }
}
