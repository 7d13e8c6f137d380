/* SPDX-License-Identifier: MIT */
/*
 * libFuzzer target: arbitrary bytes as packed frames. The first byte of an input selects the size of frames, the next
 * ones are a table of four of them, the rest is the ring. All memory is exactly as large as the kernel may use, so that
 * each access beyond it is found. What it makes of a frame that is right, a second run makes again.
 */
#include "kernels/cpu/rebuild_frames_serial.h"
#include "replay/writer/frame_packer.h"
#include "support/file_utils.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SLOTS = 4, LINKS = 6, ENTRY = 5, HEAD = 1 + SLOTS * ENTRY + LINKS };

static const struct shape {
    int64_t padded, line;
} shapes[] = {{7056, 84}, {400, 40}, {8, 1}, {64, 8}, {72, 13}, {520, 73}, {1000, 500}, {1536, 64}};

static void must(int holds, const char *what)
{
    if (holds)
        return;
    fprintf(stderr, "fuzz_frames: %s: %s\n", what, gpur_last_error());
    abort();
}

/* An entry of the table: a place of two bytes, a length of two, and one for the kind, the key, and more length. */
static gpur_packed_frame entry_of(const uint8_t *from)
{
    const uint32_t more = from[4] & 64 ? 0x12345678 : 0;
    return (gpur_packed_frame){(uint32_t)from[0] | (uint32_t)from[1] << 8 | (from[4] & 128 ? more << 4 : 0),
                               ((uint32_t)from[2] | (uint32_t)from[3] << 8) + (from[4] & 128 ? 0 : more), from[4] & 3u,
                               from[4] >> 2 & 7u};
}

/* A ring of a key frame, one that needs it, and one of bits, as an input. */
static void add_seed(const char *folder, gpur_device *device, int number)
{
    const struct shape *const s = &shapes[number];
    unsigned char input[HEAD + 4 * 8192], frame[8192], *const ring = input + HEAD;
    gpur_frame_packer packer = {0};
    gpur_frame_key key = {.frame = calloc(1, (size_t)s->padded)};
    char path[512];
    int64_t at = 0;
    memset(input, 0, sizeof input);
    input[0] = (unsigned char)number;
    must(key.frame && gpur_frame_packer_build(&packer, device, s->padded, s->line) == GPUR_OK, "a packer");
    for (int t = 0; t < SLOTS; t++) {
        for (int64_t i = 0; i < s->padded; i++)
            frame[i] = (unsigned char)(t == 3 ? i % 3 == 0 : i / 9 * 5 + (i % 50 == t ? i : 0));
        const gpur_packed p = gpur_frame_pack(&packer, &key, frame, ring + at);
        const unsigned char entry[ENTRY] = {(unsigned char)(at / 8), (unsigned char)(at / 8 >> 8),
                                            (unsigned char)p.length, (unsigned char)(p.length >> 8),
                                            (unsigned char)(p.kind | (p.needs_key ? 1 << 2 : 0))};
        memcpy(input + 1 + t * ENTRY, entry, ENTRY);
        at += (p.length + 7) / 8 * 8;
    }
    for (int j = 0; j < LINKS; j++)
        input[1 + SLOTS * ENTRY + j] = (unsigned char)(j + 1);
    snprintf(path, sizeof path, "%s/frames%d", folder, number);
    must(write_file(path, input, HEAD + at + GPUR_PACKED_UNIT) == 0, "a seed cannot be written");
    gpur_frame_packer_destroy(&packer);
    free(key.frame);
}

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    gpur_device *device = NULL;
    const char *const last = (*argv)[*argc - 1];
    must(gpur_device_open("cpu", NULL, &device) == GPUR_OK, "device");
    for (int i = 0; i < 8 && *argc > 1 && last[0] != '-'; i++)
        add_seed(last, device, i);
    gpur_device_close(device);
    return 0;
}

static void rebuild(const struct shape *s, const gpur_packed_frame *table, const uint32_t *links,
                    const unsigned char *ring, int64_t ring_bytes, unsigned char *frames, uint32_t *rebuilt)
{
    const int32_t stride = gpur_code_stride(s->line);
    const int64_t before = (3 * stride + 7) / 8 * 8;
    const gpur_rebuild_frames_args args = {.ring = ring,
                                           .packed = table,
                                           .links = links,
                                           .frames = frames + before,
                                           .rebuilt = rebuilt,
                                           .ring_bytes = ring_bytes,
                                           .pitch = before + s->padded,
                                           .padded_bytes = s->padded,
                                           .batch = 1,
                                           .count = LINKS,
                                           .stride = stride,
                                           .slots = SLOTS};
    gpur_rebuild_row_serial(&args, 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < HEAD)
        return 0;
    const struct shape *const s = &shapes[data[0] % 8];
    const size_t before = (size_t)(3 * gpur_code_stride(s->line) + 7) / 8 * 8;
    const size_t bytes = (before + (size_t)s->padded) * (LINKS + 1), ring_bytes = size - HEAD;
    gpur_packed_frame *const table = malloc(SLOTS * sizeof *table);
    uint32_t *const links = malloc(2 * LINKS * sizeof *links);
    unsigned char *const ring = malloc(ring_bytes + 1), *const frames = malloc(2 * bytes);
    must(table && links && ring && frames, "no memory for an input");
    for (int i = 0; i < SLOTS; i++)
        table[i] = entry_of(data + 1 + i * ENTRY);
    for (int j = 0; j < LINKS; j++)
        links[j] = data[1 + SLOTS * ENTRY + j] % 7;
    unsigned char *const exact = realloc(ring, ring_bytes > 0 ? ring_bytes : 1);
    memcpy(exact, data + HEAD, ring_bytes);
    memset(frames, 0x55, bytes);
    rebuild(s, table, links, exact, (int64_t)ring_bytes, frames, links + LINKS);
    memset(frames + bytes, 0xaa, bytes);
    rebuild(s, table, links, exact, (int64_t)ring_bytes, frames + bytes, links + LINKS);
    for (int j = 0; j < LINKS; j++) {
        const size_t at = links[LINKS + j] > 0 ? (links[LINKS + j] - 1) * (before + (size_t)s->padded) + before : 0;
        must(links[LINKS + j] == 0 || memcmp(frames + at, frames + bytes + at, (size_t)s->padded) == 0,
             "a frame depends on the memory that it is rebuilt in");
    }
    free(table), free(links), free(exact), free(frames);
    return 0;
}
