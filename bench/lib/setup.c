/* SPDX-License-Identifier: MIT */
#include "setup.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Ends the program without the destructors of its libraries, since other threads may be computing with them. */
static _Noreturn void give_up(int status)
{
    fflush(NULL);
    _exit(status);
}

void bench_must(gpur_status status, const char *what)
{
    if (status == GPUR_OK)
        return;
    fprintf(stderr, "%s: %s\n", what, gpur_last_error());
    give_up(status == GPUR_UNAVAILABLE ? 77 : 1);
}

void *bench_allocate(size_t bytes)
{
    void *const memory = calloc(bytes, 1);
    if (!memory) {
        fprintf(stderr, "no host memory for %zu bytes\n", bytes);
        give_up(1);
    }
    return memory;
}

uint64_t bench_random(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

int64_t bench_random_below(uint64_t *state, int64_t n)
{
    return (int64_t)((bench_random(state) >> 32) * (uint64_t)n >> 32);
}

float bench_random_unit(uint64_t *state)
{
    return (float)(bench_random(state) >> 40) * 0x1p-24f;
}

static void fill_noise(unsigned char *memory, size_t bytes, uint64_t *state)
{
    for (size_t i = 0; i < bytes; i += sizeof(uint64_t)) {
        const uint64_t bits = bench_random(state);
        memcpy(memory + i, &bits, bytes - i < sizeof bits ? bytes - i : sizeof bits);
    }
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

int bench_is_cuda(gpur_device *device)
{
    gpur_device_info info = {.size = sizeof info};
    bench_must(gpur_device_get_info(device, &info), "device info");
    return info.is_cuda;
}

const char *bench_describe(gpur_device *device)
{
    static char text[256];
    gpur_device_info info = {.size = sizeof info};
    bench_must(gpur_device_get_info(device, &info), "device info");
    snprintf(text, sizeof text, "%s: %s, %d %s", info.name, info.description, info.threads,
             info.is_cuda ? "multiprocessors" : "threads");
    return text;
}

const char *const bench_maths[] = {"fp32", "tf32", "bf16", "auto", NULL};

const char *bench_describe_training(gpur_device *device, int64_t math)
{
    static char text[288];
    snprintf(text, sizeof text, "%s, %s", bench_describe(device), bench_maths[math]);
    return text;
}

gpur_replay *bench_create(gpur_device *device, const gpur_replay_config *config)
{
    gpur_replay *replay = NULL;
    bench_must(gpur_replay_create(device, config, &replay), "replay");
    return replay;
}

gpur_writer *bench_writer(gpur_replay *replay)
{
    gpur_writer *writer = NULL;
    bench_must(gpur_writer_create(replay, 1, &writer), "writer");
    return writer;
}

unsigned char *bench_host_memory(gpur_device *device, int64_t bytes)
{
    void *memory = NULL;
    if (bench_is_cuda(device))
        memory = bench_allocate((size_t)bytes);
    else
        bench_must(gpur_device_alloc(device, bytes, &memory), "memory of the baseline");
    return memset(memory, 1, (size_t)bytes);
}

void bench_host_free(gpur_device *device, unsigned char *memory)
{
    if (bench_is_cuda(device))
        free(memory);
    else
        gpur_device_free(device, memory);
}

void bench_sample(gpur_replay *replay, int64_t count)
{
    gpur_batch *batch = NULL;
    bench_must(gpur_replay_sample(replay, count, NULL, &batch), "sample");
    bench_must(gpur_batch_sync(batch), "sync");
    gpur_batch_release(batch);
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
    bench_melee_config(&config, capacity);
    return bench_create(device, &config);
}

void bench_melee_rows(int64_t first, int64_t count, melee_row *rows)
{
    memset(rows, 0, (size_t)count * sizeof *rows); /* the padding, too */
    for (int64_t i = 0; i < count; i++) {
        melee_row *const row = &rows[i];
        uint64_t state = (uint64_t)(first + i) * 0x2545f4914f6cdd1du;
        for (int f = 0; f < MELEE_OBS; f++) {
            row->obs[f] = 2 * bench_random_unit(&state) - 1;
            row->next_obs[f] = 2 * bench_random_unit(&state) - 1;
        }
        row->action = (int32_t)bench_random_below(&state, MELEE_ACTIONS);
        row->reward = bench_random_unit(&state);
        row->terminated = bench_random_unit(&state) < 0.01f;
    }
}

melee_row *bench_new_melee_rows(int64_t count)
{
    melee_row *const rows = bench_allocate((size_t)count * sizeof *rows);
    bench_melee_rows(0, count, rows);
    return rows;
}

void bench_melee_fill(gpur_replay *replay, int64_t rows)
{
    enum { BLOCK = 10000 };
    melee_row *const block = bench_allocate(BLOCK * sizeof *block);
    gpur_writer *const writer = bench_writer(replay);
    for (int64_t done = 0; done < rows; done += BLOCK) {
        const int64_t count = rows - done < BLOCK ? rows - done : BLOCK;
        bench_melee_rows(done, count, block);
        bench_must(gpur_writer_append(writer, count, block, NULL), "append");
    }
    gpur_writer_destroy(writer);
    free(block);
}

static const gpur_field small_fields[SMALL_FIELDS] = {{"obs", GPUR_FLOAT32, {4}},     {"action", GPUR_INT32, {0}},
                                                      {"reward", GPUR_FLOAT32, {0}},  {"next_obs", GPUR_FLOAT32, {4}},
                                                      {"terminated", GPUR_BOOL, {0}}, {"truncated", GPUR_BOOL, {0}}};
const size_t small_bytes[SMALL_FIELDS] = {16, 4, 4, 16, 1, 1};

/* Bytes of one in observations and rewards. */
void bench_small_block(void *arrays[SMALL_FIELDS])
{
    for (int f = 0; f < SMALL_FIELDS; f++) {
        arrays[f] = bench_allocate(SMALL_BLOCK * small_bytes[f]);
        memset(arrays[f], small_fields[f].dtype == GPUR_FLOAT32, SMALL_BLOCK * small_bytes[f]);
    }
}

void bench_small_free(void *arrays[SMALL_FIELDS])
{
    for (int f = 0; f < SMALL_FIELDS; f++)
        free(arrays[f]);
}

gpur_replay *bench_small_replay(gpur_device *device, int64_t capacity, int32_t upload)
{
    void *arrays[SMALL_FIELDS];
    gpur_replay_config config;
    bench_must(gpur_replay_config_init(&config, sizeof config), "replay config");
    config.capacity = capacity;
    config.fields = small_fields;
    config.field_count = SMALL_FIELDS;
    config.upload = upload;
    gpur_replay *const replay = bench_create(device, &config);
    gpur_writer *const writer = bench_writer(replay);
    bench_small_block(arrays);
    for (int64_t i = 0; i < capacity / SMALL_BLOCK; i++)
        bench_must(gpur_writer_append_fields(writer, SMALL_BLOCK, (const void *const *)arrays, NULL, NULL), "append");
    bench_small_free(arrays);
    gpur_writer_destroy(writer);
    return replay;
}

enum { PIXEL_FIELDS = 7 };

static void set_pixel_fields(gpur_field fields[PIXEL_FIELDS], int32_t axis)
{
    const int last = axis == GPUR_STACK_LAST;
    const gpur_field stack = {"obs", GPUR_UINT8, {last ? 84 : STACK, 84, last ? STACK : 84}};
    fields[0] = fields[3] = stack;
    fields[1] = (gpur_field){"action", GPUR_INT32, {0}};
    fields[2] = (gpur_field){"reward", GPUR_FLOAT32, {0}};
    fields[3].name = "next_obs";
    fields[4] = (gpur_field){"terminated", GPUR_BOOL, {0}};
    fields[5] = (gpur_field){"truncated", GPUR_BOOL, {0}};
    fields[6] = (gpur_field){"previous", GPUR_INT64, {0}};
}

gpur_replay *bench_stacks_replay(gpur_device *device, int64_t capacity, int32_t axis, int32_t fields)
{
    enum { BLOCK = 64 };
    gpur_field pixels[PIXEL_FIELDS];
    gpur_replay_config config;
    uint64_t state = 3;
    set_pixel_fields(pixels, axis);
    bench_must(gpur_replay_config_init(&config, sizeof config), "replay config");
    config.capacity = capacity, config.max_batch = PIXELS_BATCH;
    config.fields = pixels, config.field_count = fields;
    gpur_replay *const replay = bench_create(device, &config);
    gpur_writer *const writer = bench_writer(replay);
    unsigned char *const stacks = bench_allocate(2 * BLOCK * STACK_BYTES);
    void *const zeros = bench_allocate(BLOCK * sizeof(float)); /* actions, rewards and flags */
    const void *const arrays[] = {stacks, zeros, zeros, stacks + BLOCK * STACK_BYTES, zeros, zeros};
    for (int64_t done = 0; done < capacity; done += BLOCK) {
        const int64_t count = capacity - done < BLOCK ? capacity - done : BLOCK;
        fill_noise(stacks, 2 * BLOCK * STACK_BYTES, &state);
        bench_must(gpur_writer_append_fields(writer, count, arrays, NULL, NULL), "append");
    }
    gpur_writer_destroy(writer);
    free(zeros);
    free(stacks);
    return replay;
}

static void fill_frames(gpur_replay *replay, int64_t steps)
{
    static unsigned char frame[FRAME_BYTES];
    gpur_writer_config config;
    gpur_writer *writer = NULL;
    uint64_t state = 3;
    bench_must(gpur_writer_config_init(&config, sizeof config), "writer config");
    config.observations = GPUR_OBSERVATIONS_FRAMES;
    bench_must(gpur_writer_open(replay, &config, &writer), "writer");
    for (int64_t t = 0; t < steps; t++) {
        const uint8_t terminated = t % EPISODE == EPISODE - 1;
        const int32_t action = (int32_t)(t % 4);
        const float reward = (float)(t % 3) - 1.0f;
        fill_noise(frame, sizeof frame, &state);
        if (t % EPISODE == 0)
            bench_must(gpur_writer_reset(writer, 0, frame), "reset");
        bench_must(gpur_writer_step(writer, &action, &reward, frame, &terminated, NULL), "step");
    }
    gpur_writer_destroy(writer);
}

static gpur_replay *frames_replay(gpur_device *device, int64_t capacity, int32_t axis, int32_t fields,
                                  int32_t prioritized)
{
    gpur_field pixels[PIXEL_FIELDS];
    gpur_replay_config config;
    set_pixel_fields(pixels, axis);
    bench_must(gpur_replay_config_init(&config, sizeof config), "replay config");
    bench_must(gpur_replay_config_preset(&config, "nature-dueling"), "preset");
    config.capacity = capacity, config.min_size = 100, config.max_batch = PIXELS_BATCH;
    config.stack_axis = axis, config.fields = pixels, config.field_count = fields;
    config.prioritized = prioritized;
    gpur_replay *const replay = bench_create(device, &config);
    fill_frames(replay, capacity);
    return replay;
}

gpur_replay *bench_frames_replay(gpur_device *device, int64_t capacity, int32_t axis)
{
    return frames_replay(device, capacity, axis, 5, 0);
}

gpur_replay *bench_linked_frames_replay(gpur_device *device, int64_t capacity)
{
    return frames_replay(device, capacity, GPUR_STACK_FIRST, PIXEL_FIELDS, 0);
}

gpur_replay *bench_prioritized_frames_replay(gpur_device *device, int64_t capacity)
{
    return frames_replay(device, capacity, GPUR_STACK_FIRST, 5, 1);
}

gpur_learner *bench_learner(gpur_replay *replay, const char *preset, int64_t batch, int32_t outputs)
{
    gpur_dqn_config config;
    gpur_learner *learner = NULL;
    bench_must(gpur_dqn_config_init(&config, sizeof config), "learner config");
    bench_must(gpur_dqn_config_preset(&config, preset), preset);
    if (batch > 0)
        config.batch_size = batch;
    if (outputs > 0)
        config.network.num_actions = outputs;
    bench_must(gpur_dqn_create(replay, &config, &learner), "learner");
    return learner;
}
