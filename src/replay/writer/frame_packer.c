/* SPDX-License-Identifier: MIT */
#include "replay/writer/frame_packer.h"

#include "base/numbers.h"
#include "kernels/lib/frame_codes.h"

#include <string.h>

/* Bytes before the frame: 3 strides of zeros. */
static int64_t margin_of(const gpur_frame_packer *p)
{
    return gpur_round_up(GPUR_REFERENCE_LINES * (int64_t)p->stride, GPUR_GROUP_BYTES);
}

int64_t gpur_frame_packer_room(const gpur_frame_packer *p)
{
    return p->padded_bytes;
}

gpur_status gpur_frame_packer_build(gpur_frame_packer *p, gpur_device *device, int64_t frame_bytes, int64_t line_bytes)
{
    p->device = device;
    p->frame_bytes = frame_bytes;
    p->padded_bytes = gpur_round_up(frame_bytes, GPUR_GROUP_BYTES);
    p->stride = gpur_code_stride(line_bytes);
    const int64_t words = 2 * (gpur_code_spans(p->padded_bytes) + p->padded_bytes / GPUR_CODED_BLOCK_BYTES + 1);
    const int64_t groups = 2 * (p->padded_bytes / GPUR_GROUP_BYTES), room = p->padded_bytes + GPUR_GROUP_BYTES;
    const int64_t before = margin_of(p);
    p->bytes = (size_t)(before + p->padded_bytes + words + groups + room);
    unsigned char *const memory = gpur_host_alloc(device, p->bytes);
    if (!memory)
        return gpur_fail(GPUR_OUT_OF_MEMORY, "no memory to pack frames, %zu bytes", p->bytes);
    memset(memory, 0, p->bytes);
    p->frame = memory + before;
    p->words = p->frame + p->padded_bytes;
    p->groups = p->words + words;
    p->stored = p->groups + groups;
    return GPUR_OK;
}

void gpur_frame_packer_destroy(gpur_frame_packer *p)
{
    if (p->frame)
        gpur_host_free(p->device, p->frame - margin_of(p), p->bytes);
    p->frame = NULL;
}

/* The state while one frame is packed: where the next words and bytes go. */
typedef struct coder {
    unsigned char *words, *groups, *stored;
    int64_t stride;
} coder;

static uint64_t load(const unsigned char *from)
{
    uint64_t group;
    memcpy(&group, from, sizeof group);
    return group;
}

static void put_word(unsigned char **to, uint32_t word)
{
    const uint16_t bits = (uint16_t)word;
    memcpy(*to, &bits, sizeof bits);
    *to += sizeof bits;
}

/* 0x80 in each byte that is 0. */
static uint64_t zero_bytes(uint64_t x)
{
    return ~(((x & GPUR_BYTE_LOW_BITS) + GPUR_BYTE_LOW_BITS) | x | GPUR_BYTE_LOW_BITS);
}

/* Bit i is the upper bit of byte i; the others are 0. */
static uint32_t upper_bits(uint64_t x)
{
    return (uint32_t)((x >> 7) * 0x0102040810204080ull >> 56);
}

/* The code of a part in a word. */
static uint32_t code_at(uint32_t code, int part)
{
    return ((code & 1) | (code >> 1) << 8) << part;
}

/* The codes of a group's bytes, from how they differ, and those that are stored. */
static void code_bytes(coder *c, uint64_t group, uint64_t reference, uint64_t above, uint64_t left)
{
    const uint64_t others = ~zero_bytes(reference) & ~GPUR_BYTE_LOW_BITS, is_above = others & zero_bytes(above);
    const uint64_t upper = others & ~is_above, stored = upper & ~zero_bytes(left);
    uint32_t kept = upper_bits(stored);
    put_word(&c->groups, upper_bits(is_above | stored) | upper_bits(upper) << 8);
    for (int i = 0; i < GPUR_GROUP_BYTES; i++, group >>= 8, kept >>= 1) {
        *c->stored = (unsigned char)group;
        c->stored += kept & 1;
    }
}

static uint32_t code_group(coder *c, const unsigned char *at, const unsigned char *reference)
{
    const uint64_t group = load(at), differs = group ^ load(reference);
    if (differs == 0)
        return GPUR_CODE_REFERENCE;
    const uint64_t above = group ^ load(at - c->stride), left = group ^ load(at - 1);
    if (above == 0)
        return GPUR_CODE_ABOVE;
    if (left == 0)
        return GPUR_CODE_LEFT;
    code_bytes(c, group, differs, above, left);
    return GPUR_CODE_CODED;
}

static uint32_t code_block(coder *c, const unsigned char *at, const unsigned char *reference, int64_t bytes)
{
    uint64_t differs = 0, above = 0, left = 0;
    uint32_t word = 0;
    for (int64_t i = 0; i < bytes; i += GPUR_GROUP_BYTES)
        differs |= load(at + i) ^ load(reference + i);
    if (differs == 0)
        return GPUR_CODE_REFERENCE;
    for (int64_t i = 0; i < bytes; i += GPUR_GROUP_BYTES) {
        above |= load(at + i) ^ load(at + i - c->stride);
        left |= load(at + i) ^ at[-1] * GPUR_BYTE_ONES;
    }
    if (above == 0)
        return GPUR_CODE_ABOVE;
    if (left == 0)
        return GPUR_CODE_LEFT;
    for (int64_t i = 0; i < bytes; i += GPUR_GROUP_BYTES)
        word |= code_at(code_group(c, at + i, reference + i), (int)(i / GPUR_GROUP_BYTES));
    put_word(&c->words, word);
    return GPUR_CODE_CODED;
}

/* Packs the frame with a key, or NULL, into the packer's buffers. Returns its length. */
static int64_t code_frame(const gpur_frame_packer *p, coder *c, const unsigned char *key)
{
    const unsigned char *const reference = key ? key : p->frame - GPUR_REFERENCE_LINES * p->stride;
    const int64_t padded = p->padded_bytes;
    unsigned char *spans = p->words;
    *c = (coder){p->words + 2 * gpur_code_spans(padded), p->groups, p->stored, p->stride};
    for (int64_t span = 0; span < padded; span += GPUR_CODED_SPAN_BYTES) {
        uint32_t word = 0;
        for (int i = 0; i < 8 && span + i * GPUR_CODED_BLOCK_BYTES < padded; i++) {
            const int64_t at = span + i * GPUR_CODED_BLOCK_BYTES, left = padded - at;
            const int64_t bytes = left < GPUR_CODED_BLOCK_BYTES ? left : GPUR_CODED_BLOCK_BYTES;
            word |= code_at(code_block(c, p->frame + at, reference + at, bytes), i);
        }
        put_word(&spans, word);
    }
    return c->words - p->words + (c->groups - p->groups) + (c->stored - p->stored);
}

static void put_codes(const gpur_frame_packer *p, const coder *c, unsigned char *to)
{
    const size_t words = (size_t)(c->words - p->words), groups = (size_t)(c->groups - p->groups);
    memcpy(to, p->words, words);
    memcpy(to + words, p->groups, groups);
    memcpy(to + words + groups, p->stored, (size_t)(c->stored - p->stored));
}

/* 1 if all bytes of the frame are 0 or 1. */
static int is_bits(const gpur_frame_packer *p)
{
    uint64_t all = 0;
    for (int64_t i = 0; i < p->padded_bytes; i += GPUR_GROUP_BYTES)
        all |= load(p->frame + i);
    return (all & ~GPUR_BYTE_ONES) == 0;
}

static void put_bits(const gpur_frame_packer *p, unsigned char *to)
{
    for (int64_t i = 0; i < p->padded_bytes / GPUR_GROUP_BYTES; i++)
        to[i] = (unsigned char)upper_bits(load(p->frame + i * GPUR_GROUP_BYTES) << 7);
}

/* 1 if the environment's next frame is to be a key frame: see gpur_frame_pack. */
static int is_due(const gpur_frame_key *key)
{
    return key->frames == 0 || key->frames >= GPUR_KEY_FRAMES;
}

static void count(const gpur_frame_packer *p, gpur_frame_key *key, const gpur_packed *packed)
{
    const int is_worn = key->frames > 1 && packed->length * key->frames > key->length;
    if (packed->is_key) {
        memcpy(key->frame, p->frame, (size_t)p->padded_bytes);
        key->frames = key->length = 0;
        key->key_length = packed->length;
    }
    key->frames = is_worn && !packed->is_key ? GPUR_KEY_FRAMES : key->frames + 1;
    key->length += packed->length;
}

gpur_packed gpur_frame_pack(const gpur_frame_packer *p, gpur_frame_key *key, const unsigned char *frame,
                            unsigned char *to)
{
    coder c;
    gpur_packed packed = {.kind = GPUR_PACKED_CODES, .is_key = is_due(key)};
    memcpy(p->frame, frame, (size_t)p->frame_bytes);
    packed.length = code_frame(p, &c, packed.is_key ? NULL : key->frame);
    if (!packed.is_key && packed.length > key->key_length) {
        packed.is_key = 1;
        packed.length = code_frame(p, &c, NULL);
    }
    packed.needs_key = !packed.is_key;
    if (packed.length > p->padded_bytes / GPUR_GROUP_BYTES && is_bits(p)) {
        packed = (gpur_packed){GPUR_PACKED_BITS, packed.is_key, 0, p->padded_bytes / GPUR_GROUP_BYTES};
        put_bits(p, to);
    } else if (packed.length >= p->padded_bytes) {
        packed = (gpur_packed){GPUR_PACKED_RAW, packed.is_key, 0, p->padded_bytes};
        memcpy(to, p->frame, (size_t)p->padded_bytes);
    } else {
        put_codes(p, &c, to);
    }
    count(p, key, &packed);
    return packed;
}
