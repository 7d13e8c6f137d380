/* SPDX-License-Identifier: MIT */
/* Transitions of pixels: two stacks of four frames of 84 x 84 and six fields in 56,458 bytes, 4,000 of them. */
#ifndef BENCH_FRAMES_H
#define BENCH_FRAMES_H

#include "setup.h"

#include <stdlib.h>
#include <string.h>

enum {
    FRAMES_FIELDS = 6,
    FRAMES_CAPACITY = 4000,
    FRAMES_BLOCK = 100,
    FRAMES_OBS = 84 * 84 * 4,
    FRAMES_BYTES = 2 * FRAMES_OBS + 10,
    FRAMES_ROW = 2 * FRAMES_OBS + 12, /* packed: a whole number of the widest element */
    FRAMES_PITCH = 56512
};

static const gpur_field frames_fields[FRAMES_FIELDS] = {
    {"obs", GPUR_UINT8, {84, 84, 4}},      {"action", GPUR_INT32, {0}},    {"reward", GPUR_FLOAT32, {0}},
    {"next_obs", GPUR_UINT8, {84, 84, 4}}, {"terminated", GPUR_BOOL, {0}}, {"truncated", GPUR_BOOL, {0}}};

/* A replay of them, full of zeros. */
static inline gpur_replay *frames_replay(gpur_device *device)
{
    gpur_replay_config config;
    gpur_replay *replay = NULL;
    gpur_writer *writer = NULL;
    void *const rows = calloc(FRAMES_BLOCK, FRAMES_ROW);
    if (!rows)
        bench_must(GPUR_OUT_OF_MEMORY, "a block of frames");
    bench_must(gpur_replay_config_init(&config, sizeof config), "replay config");
    config.capacity = FRAMES_CAPACITY;
    config.fields = frames_fields;
    config.field_count = FRAMES_FIELDS;
    bench_must(gpur_replay_create(device, &config, &replay), "replay");
    bench_must(gpur_writer_create(replay, 1, &writer), "writer");
    for (int i = 0; i < FRAMES_CAPACITY / FRAMES_BLOCK; i++)
        bench_must(gpur_writer_append(writer, FRAMES_BLOCK, rows, NULL), "append");
    gpur_writer_destroy(writer);
    free(rows);
    return replay;
}

#endif
