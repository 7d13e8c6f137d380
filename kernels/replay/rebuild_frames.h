/* SPDX-License-Identifier: MIT */
/*
 * Rebuilds packed frames. Arguments and shapes: gpur_rebuild_frames_args. A warp rebuilds several frames at a time,
 * each by a team of lanes: block after block, first of the key, then of the frame. A lane has groups of a block. It
 * knows all of their bytes but those to the left, which are those of the last lane before it that knows its own. The
 * newest bytes of both frames lie in windows, which are rings in shared memory. The serial body is in
 * kernels/cpu/rebuild_frames_serial.h.
 */
#pragma once

#include "kernels/cpu/rebuild_frames_serial.h"
#include "kernels/lib/collective.h"

enum {
    GPUR_REBUILD_THREADS = 64,
    GPUR_TEAM_LANES = GPUR_WARP < 8 ? GPUR_WARP : 8,
    GPUR_WARP_TEAMS = GPUR_WARP / GPUR_TEAM_LANES,
    GPUR_LANE_GROUPS = 8 / GPUR_TEAM_LANES,
    GPUR_WINDOW_GROUPS = 128, /* at least 3 of the largest stride, a block and a group */
    GPUR_BLOCK_WINDOWS = GPUR_WARP == 1 ? 2 : GPUR_REBUILD_THREADS / GPUR_TEAM_LANES * 2,
    GPUR_NO_BYTE = 256, /* of a lane whose bytes all are those to the left */
};

/* What a team knows of a frame that it rebuilds; the same in each of its lanes. */
typedef struct gpur_team_frame {
    const gpur_packed_frame *packed; /* NULL: zeros */
    gpur_frame_reader reader;
    uint64_t *window;
    uint32_t before; /* the byte before the next block */
} gpur_team_frame;

/* What a lane knows of its groups of a block. */
typedef struct gpur_lane_groups {
    uint32_t codes[GPUR_LANE_GROUPS];
    uint64_t reference[GPUR_LANE_GROUPS];
    gpur_open_group open[GPUR_LANE_GROUPS];
    uint64_t bytes[GPUR_LANE_GROUPS];
} gpur_lane_groups;

GPUR_FN int gpur_team_lane(gpur_thread at)
{
    return gpur_lane(at) % GPUR_TEAM_LANES;
}

/* The x of lane l of the team; each lane of the warp calls it. */
GPUR_FN uint32_t gpur_team_get(gpur_thread at, uint32_t x, int l)
{
    return gpur_warp_get_u32(at, x, gpur_lane(at) - gpur_team_lane(at) + l);
}

GPUR_FN uint32_t gpur_team_sum(gpur_thread at, uint32_t x)
{
    for (int distance = 1; distance < GPUR_TEAM_LANES; distance *= 2)
        x += gpur_team_get(at, x, gpur_team_lane(at) ^ distance);
    return x;
}

/* The sum of the lanes up to this one. */
GPUR_FN uint32_t gpur_team_prefix(gpur_thread at, uint32_t x)
{
    for (int distance = 1; distance < GPUR_TEAM_LANES; distance *= 2) {
        const int from = gpur_team_lane(at) - distance;
        const uint32_t other = gpur_team_get(at, x, from < 0 ? 0 : from);
        x += from < 0 ? 0 : other;
    }
    return x;
}

/* The byte of the last lane up to this one that has one; else GPUR_NO_BYTE. */
GPUR_FN uint32_t gpur_team_last_byte(gpur_thread at, uint32_t x)
{
    for (int distance = 1; distance < GPUR_TEAM_LANES; distance *= 2) {
        const int from = gpur_team_lane(at) - distance;
        const uint32_t other = gpur_team_get(at, x, from < 0 ? 0 : from);
        if (from >= 0 && x == GPUR_NO_BYTE)
            x = other;
    }
    return x;
}

GPUR_FN uint32_t gpur_team_count_coded(gpur_thread at, const unsigned char *words, int64_t count)
{
    uint32_t coded = 0;
    for (int64_t i = gpur_team_lane(at); i < count; i += GPUR_TEAM_LANES)
        coded += gpur_count_bits(gpur_coded_parts(gpur_word_at(words + 2 * i)));
    return gpur_team_sum(at, coded);
}

/* One of the parts of a packed frame, which are one behind the other. Returns how many words the next one has; of a
 * frame that is too short for this one, 0. */
GPUR_FN int64_t gpur_team_open_part(gpur_thread at, const unsigned char **part, int64_t words, int64_t *left)
{
    const int fits = *left >= 2 * words;
    const int64_t coded = gpur_team_count_coded(at, *part, fits ? words : 0);
    *left = fits ? *left - 2 * words : -1;
    part[1] = fits ? *part + 2 * words : *part;
    return coded;
}

/* Begins a frame, `packed` or NULL. Each lane of the warp calls it. */
GPUR_FN void gpur_team_open(gpur_thread at, const gpur_rebuild_frames_args *a, const gpur_packed_frame *packed,
                            uint64_t *window, gpur_team_frame *f)
{
    const int is_coded = packed && packed->kind == GPUR_PACKED_CODES;
    const unsigned char *parts[4];
    int64_t left = is_coded ? packed->length : 0, words = is_coded ? gpur_code_spans(a->padded_bytes) : 0;
    parts[0] = packed ? a->ring + (int64_t)packed->place * GPUR_PACKED_UNIT : a->ring;
    for (int i = 0; i < 3; i++)
        words = gpur_team_open_part(at, &parts[i], words, &left);
    f->reader.spans = parts[0], f->reader.blocks = parts[1], f->reader.groups = parts[2], f->reader.stored = parts[3];
    f->packed = !is_coded || left == words ? packed : (const gpur_packed_frame *)0;
    f->window = window;
    f->before = 0;
    for (int i = gpur_team_lane(at); i < GPUR_WINDOW_GROUPS; i += GPUR_TEAM_LANES)
        window[i] = 0;
}

/* The 8 bytes at a place of a frame that is in its window. */
GPUR_FN uint64_t gpur_window_get(const uint64_t *window, int64_t place)
{
    const uint32_t group = (uint32_t)(place >> 3);
    const int shift = 8 * (int)(place & 7);
    const uint64_t low = window[group % GPUR_WINDOW_GROUPS];
    return shift == 0 ? low : low >> shift | window[(group + 1) % GPUR_WINDOW_GROUPS] << (64 - shift);
}

GPUR_FN uint64_t gpur_load_stored(const unsigned char *from, uint32_t count)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < count; i++)
        bytes |= (uint64_t)from[i] << 8 * i;
    return bytes;
}

/* The codes of the lane's groups in a block. Returns how many bytes they have stored. */
GPUR_FN uint32_t gpur_lane_read_codes(gpur_thread at, gpur_team_frame *f, int64_t block, gpur_lane_groups *g)
{
    const int is_coded = f->packed && f->packed->kind == GPUR_PACKED_CODES;
    uint32_t word = 0, stored = 0;
    if (is_coded) {
        const uint32_t code = gpur_code_of(gpur_word_at(f->reader.spans + block / 8 * 2), (int)(block % 8));
        word = code == GPUR_CODE_CODED ? gpur_word_at(f->reader.blocks) : gpur_word_of(code);
        f->reader.blocks += code == GPUR_CODE_CODED ? 2 : 0;
    }
    const uint32_t coded = gpur_coded_parts(word);
    for (int n = 0; n < GPUR_LANE_GROUPS; n++) {
        const int group = gpur_team_lane(at) * GPUR_LANE_GROUPS + n;
        const uint32_t code = gpur_code_of(word, group), earlier = gpur_count_bits(coded & ((1u << group) - 1));
        g->codes[n] = code == GPUR_CODE_CODED ? gpur_word_at(f->reader.groups + 2 * earlier) : gpur_word_of(code);
        stored += gpur_count_bits(gpur_coded_parts(g->codes[n]));
    }
    f->reader.groups += 2 * gpur_count_bits(coded);
    return stored;
}

/* The lane's groups of a block, with open bytes to the left. Returns the lane's last byte, or GPUR_NO_BYTE. */
GPUR_FN uint32_t gpur_lane_open_groups(gpur_thread at, const gpur_rebuild_frames_args *a, gpur_team_frame *f,
                                       int64_t block, gpur_lane_groups *g)
{
    const uint32_t stored = gpur_lane_read_codes(at, f, block, g);
    const uint32_t up_to_this = gpur_team_prefix(at, stored);
    const unsigned char *from = f->reader.stored + (up_to_this - stored);
    uint32_t last = GPUR_NO_BYTE;
    f->reader.stored += gpur_team_get(at, up_to_this, GPUR_TEAM_LANES - 1);
    for (int n = 0; n < GPUR_LANE_GROUPS; n++) {
        const int64_t place =
            block * GPUR_CODED_BLOCK_BYTES + (gpur_team_lane(at) * GPUR_LANE_GROUPS + n) * GPUR_GROUP_BYTES;
        const uint32_t count = gpur_count_bits(gpur_coded_parts(g->codes[n]));
        g->open[n] = gpur_open_group_of(g->codes[n], g->reference[n], gpur_window_get(f->window, place - a->stride),
                                        gpur_load_stored(from, count));
        from += count;
        if (g->open[n].left != ~0ull)
            last = (uint32_t)(gpur_close_group(g->open[n], 0) >> 56);
    }
    return last;
}

/* A group of a frame that is not coded. */
GPUR_FN uint64_t gpur_plain_group(const gpur_team_frame *f, int64_t group, int64_t groups)
{
    if (!f->packed || group >= groups)
        return 0;
    return f->packed->kind == GPUR_PACKED_BITS ? gpur_group_of_bits(f->reader.spans[group])
                                               : gpur_load_stored(f->reader.spans + group * GPUR_GROUP_BYTES, 8);
}

/* Rebuilds a block. Each lane of the warp calls it; `g` has the groups that it refers to, and gets the rebuilt ones. */
GPUR_FN void gpur_team_rebuild_block(gpur_thread at, const gpur_rebuild_frames_args *a, gpur_team_frame *f,
                                     int64_t block, gpur_lane_groups *g)
{
    const uint32_t last = gpur_team_last_byte(at, gpur_lane_open_groups(at, a, f, block, g));
    const uint32_t left = gpur_team_get(at, last, gpur_team_lane(at) == 0 ? 0 : gpur_team_lane(at) - 1);
    const uint32_t end = gpur_team_get(at, last, GPUR_TEAM_LANES - 1);
    uint32_t before = gpur_team_lane(at) == 0 || left == GPUR_NO_BYTE ? f->before : left;
    for (int n = 0; n < GPUR_LANE_GROUPS; n++) {
        const int64_t group = block * 8 + gpur_team_lane(at) * GPUR_LANE_GROUPS + n;
        g->bytes[n] = gpur_close_group(g->open[n], before);
        before = (uint32_t)(g->bytes[n] >> 56);
        if (!f->packed || f->packed->kind != GPUR_PACKED_CODES)
            g->bytes[n] = gpur_plain_group(f, group, a->padded_bytes / GPUR_GROUP_BYTES);
        f->window[(uint32_t)group % GPUR_WINDOW_GROUPS] = g->bytes[n];
    }
    f->before = end == GPUR_NO_BYTE ? f->before : end;
}

/* Sets the groups that those of a block refer to without a key. */
GPUR_FN void gpur_lane_refer_to_window(gpur_thread at, const gpur_rebuild_frames_args *a, const gpur_team_frame *f,
                                       int64_t block, gpur_lane_groups *g)
{
    for (int n = 0; n < GPUR_LANE_GROUPS; n++) {
        const int64_t group = block * 8 + gpur_team_lane(at) * GPUR_LANE_GROUPS + n;
        g->reference[n] =
            gpur_window_get(f->window, group * GPUR_GROUP_BYTES - GPUR_REFERENCE_LINES * (int64_t)a->stride);
    }
}

/* Rebuilds a frame, `packed` or NULL, at `to`; NULL: nowhere. Each lane of the warp calls it. */
GPUR_FN void gpur_team_rebuild(gpur_thread at, const gpur_rebuild_frames_args *a, const gpur_packed_frame *packed,
                               uint64_t *windows, unsigned char *to)
{
    const int has_key = packed && packed->kind == GPUR_PACKED_CODES && packed->key != 0;
    const gpur_packed_frame *const key_packed = has_key ? gpur_packed_key(a, packed) : (const gpur_packed_frame *)0;
    gpur_team_frame key, frame;
    gpur_lane_groups g;
    gpur_team_open(at, a, key_packed, windows, &key);
    gpur_team_open(at, a, has_key && !key_packed ? (const gpur_packed_frame *)0 : packed, windows + GPUR_WINDOW_GROUPS,
                   &frame);
    gpur_warp_sync(at);
    for (int64_t block = 0; block * GPUR_CODED_BLOCK_BYTES < a->padded_bytes; block++) {
        gpur_lane_refer_to_window(at, a, &key, block, &g);
        gpur_team_rebuild_block(at, a, &key, block, &g);
        if (has_key)
            memcpy(g.reference, g.bytes, sizeof g.reference);
        else
            gpur_lane_refer_to_window(at, a, &frame, block, &g);
        gpur_team_rebuild_block(at, a, &frame, block, &g);
        for (int n = 0; n < GPUR_LANE_GROUPS; n++) {
            const int64_t place =
                block * GPUR_CODED_BLOCK_BYTES + (gpur_team_lane(at) * GPUR_LANE_GROUPS + n) * GPUR_GROUP_BYTES;
            if (to && place < a->padded_bytes)
                memcpy(__builtin_assume_aligned(to + place, GPUR_GROUP_BYTES), &g.bytes[n], GPUR_GROUP_BYTES);
        }
        gpur_warp_sync(at);
    }
}

/* The parallel body: a team takes one link at a time; those that it need not rebuild, too, since its warp goes on. */
GPUR_KERNEL_OF(rebuild_frames, GPUR_REBUILD_THREADS)
{
    GPUR_SHARED(uint64_t, windows, GPUR_BLOCK_WINDOWS * GPUR_WINDOW_GROUPS);
    const int64_t links = a->batch * a->count;
    const gpur_span rows = gpur_block_rows(at, a->batch);
    const gpur_span warps = gpur_warp_rows(at, (links + GPUR_WARP_TEAMS - 1) / GPUR_WARP_TEAMS);
    if (!gpur_is_parallel()) {
        for (int64_t b = rows.first; b < rows.last; b++)
            gpur_rebuild_row_serial(a, b);
        return;
    }
    for (int64_t i = warps.first; i < warps.last; i += warps.step) {
        const int64_t item = i * GPUR_WARP_TEAMS + gpur_lane(at) / GPUR_TEAM_LANES;
        const int64_t b = item < links ? item / a->count : 0, j = item < links ? item - b * a->count : 0;
        const uint32_t *const row = a->links + b * a->count;
        const int is_link = item < links && row[j] - 1 < a->slots;
        const int32_t same = gpur_first_with_link(row, (int32_t)j, row[j]);
        const int64_t place = b * (a->count + 1) + same;
        const int is_first = is_link && same == j;
        if (item < links && gpur_team_lane(at) == 0)
            a->rebuilt[item] = is_link ? (uint32_t)place + 1 : 0;
        gpur_team_rebuild(at, a, is_first ? gpur_packed_at(a, row[j]) : (const gpur_packed_frame *)0,
                          windows + at.thread / GPUR_TEAM_LANES * 2 * GPUR_WINDOW_GROUPS,
                          is_first ? a->frames + place * a->pitch : (unsigned char *)0);
    }
}
