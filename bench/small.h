/* SPDX-License-Identifier: MIT */
/* Small transitions, as of CartPole with an action of one float32: 42 bytes in six fields, 100,000 of them. */
#ifndef BENCH_SMALL_H
#define BENCH_SMALL_H

#include "setup.h"

#include <stdlib.h>
#include <string.h>

enum { SMALL_FIELDS = 6, SMALL_CAPACITY = 100000, SMALL_BYTES = 42, SMALL_BLOCK = 10000 };

static const gpur_field small_fields[SMALL_FIELDS] = {
    {"obs", GPUR_FLOAT32, {4}},      {"action", GPUR_FLOAT32, {1}},   {"reward", GPUR_FLOAT32, {0}},
    {"next_obs", GPUR_FLOAT32, {4}}, {"terminated", GPUR_UINT8, {0}}, {"truncated", GPUR_UINT8, {0}}};
static const size_t small_bytes[SMALL_FIELDS] = {16, 4, 4, 16, 1, 1};

/* A block of transitions, an array a field, all 1s but for the flags. Free each. */
static inline void small_block(void *arrays[SMALL_FIELDS])
{
    for (int f = 0; f < SMALL_FIELDS; f++) {
        arrays[f] = malloc(SMALL_BLOCK * small_bytes[f]);
        if (!arrays[f])
            bench_must(GPUR_OUT_OF_MEMORY, "a block of small transitions");
        memset(arrays[f], small_bytes[f] > 1, SMALL_BLOCK * small_bytes[f]);
    }
}

/* A replay of them, full. */
static inline gpur_replay *small_replay(gpur_device *device, int32_t feed, gpur_writer **writer)
{
    void *arrays[SMALL_FIELDS];
    gpur_replay_config config;
    gpur_replay *replay = NULL;
    bench_must(gpur_replay_config_init(&config, sizeof config), "replay config");
    config.capacity = SMALL_CAPACITY;
    config.fields = small_fields;
    config.field_count = SMALL_FIELDS;
    config.feed = feed;
    bench_must(gpur_replay_create(device, &config, &replay), "replay");
    bench_must(gpur_writer_create(replay, 1, writer), "writer");
    small_block(arrays);
    for (int i = 0; i < SMALL_CAPACITY / SMALL_BLOCK; i++)
        bench_must(gpur_writer_append_fields(*writer, SMALL_BLOCK, (const void *const *)arrays, NULL, NULL), "append");
    for (int f = 0; f < SMALL_FIELDS; f++)
        free(arrays[f]);
    return replay;
}

#endif
