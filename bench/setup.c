/* SPDX-License-Identifier: MIT */
#include "setup.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void bench_must(gpur_status status, const char *what)
{
    if (status == GPUR_OK)
        return;
    fprintf(stderr, "%s: %s\n", what, gpur_last_error());
    exit(status == GPUR_UNAVAILABLE ? 77 : 1);
}

gpur_device *bench_open(const char *name, int threads)
{
    gpur_device_config config;
    gpur_device *device = NULL;
    bench_must(gpur_device_config_init(&config, sizeof config), "device config");
    config.threads = threads;
    bench_must(gpur_device_open(name, &config, &device), name);
    return device;
}

void bench_melee_config(gpur_replay_config *config, int64_t capacity)
{
    static const gpur_field fields[] = {
        {"obs", GPUR_FLOAT32, {MELEE_OBS}},      {"action", GPUR_INT32, {0}},    {"reward", GPUR_FLOAT32, {0}},
        {"next_obs", GPUR_FLOAT32, {MELEE_OBS}}, {"terminated", GPUR_BOOL, {0}},
    };
    bench_must(gpur_replay_config_init(config, sizeof *config), "replay config");
    config->capacity = capacity;
    config->fields = fields;
    config->field_count = 5;
}

gpur_replay *bench_melee_replay(gpur_device *device, int64_t capacity)
{
    gpur_replay_config config;
    gpur_replay *replay = NULL;
    bench_melee_config(&config, capacity);
    bench_must(gpur_replay_create(device, &config, &replay), "replay");
    return replay;
}

static float unit(uint64_t *state)
{
    *state = *state * 6364136223846793005ull + 1442695040888963407ull;
    return (float)(*state >> 40) * 0x1p-24f;
}

melee_row *bench_melee_rows(int64_t count)
{
    melee_row *const rows = calloc((size_t)count, sizeof *rows);
    uint64_t state = 1;
    if (!rows)
        bench_must(GPUR_OUT_OF_MEMORY, "rows");
    for (int64_t i = 0; i < count; i++) {
        for (int f = 0; f < MELEE_OBS; f++)
            rows[i].obs[f] = 2 * unit(&state) - 1, rows[i].next_obs[f] = 2 * unit(&state) - 1;
        rows[i].action = (int32_t)(unit(&state) * MELEE_ACTIONS);
        rows[i].reward = unit(&state);
        rows[i].terminated = unit(&state) < 0.01f;
    }
    return rows;
}

void bench_fill(gpur_replay *replay, int64_t rows)
{
    enum { PART = 10000 };
    melee_row *const part = bench_melee_rows(PART);
    gpur_writer *writer = NULL;
    bench_must(gpur_writer_create(replay, 1, &writer), "writer");
    for (int64_t done = 0; done < rows; done += PART)
        bench_must(gpur_writer_append(writer, rows - done < PART ? rows - done : PART, part, NULL), "append");
    gpur_writer_destroy(writer);
    free(part);
}

static int on_cpu(gpur_device *device)
{
    gpur_device_info info = {.size = sizeof info};
    bench_must(gpur_device_get_info(device, &info), "device info");
    return !info.is_cuda;
}

unsigned char *bench_host_memory(gpur_device *device, int64_t bytes)
{
    void *memory = NULL;
    if (on_cpu(device))
        bench_must(gpur_device_alloc(device, bytes, &memory), "baseline memory");
    else if (!(memory = malloc((size_t)bytes)))
        bench_must(GPUR_OUT_OF_MEMORY, "baseline memory");
    memset(memory, 1, (size_t)bytes);
    return (unsigned char *)memory;
}

void bench_host_free(gpur_device *device, unsigned char *memory)
{
    if (on_cpu(device))
        gpur_device_free(device, memory);
    else
        free(memory);
}

const char *bench_describe(gpur_device *device, char *text, size_t bytes)
{
    gpur_device_info info = {.size = sizeof info};
    bench_must(gpur_device_get_info(device, &info), "device info");
    snprintf(text, bytes, "%s: %s, %d %s", info.name, info.description, info.threads,
             info.is_cuda ? "multiprocessors" : "threads");
    return text;
}
