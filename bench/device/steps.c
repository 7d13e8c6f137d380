/* SPDX-License-Identifier: MIT */
/* Whole train steps: of the small network on rows of numbers, and of the Nature network on linked frames. */
#include "bench/device/parts.h"
#include "bench/device/step_ways.h"
#include "bench/setup.h"
#include "device/device.h"

enum { SIDE = 84, FRAME = SIDE * SIDE, STACK = 4, FRAMES_CAPACITY = 20000, EPISODE = 500 };

enum { FP32 = GPUR_MATH_FP32, TF32 = GPUR_MATH_TF32, BATCHES = 3 };

static const int64_t small_batches[BATCHES] = {32, 256, 1024};

static void measure_small(bench_report *report, gpur_replay *replay, const step_how *hows, int count)
{
    for (int b = 0; b < BATCHES; b++)
        for (int i = 0; i < count; i++) {
            const step_way way = {"melee-gpu", small_batches[b], hows[i]};
            measure_step_way(report, replay, &way);
        }
}

static gpur_replay *frames_replay(gpur_device *device)
{
    static const gpur_field fields[] = {{"obs", GPUR_UINT8, {STACK, SIDE, SIDE}},
                                        {"action", GPUR_INT32, {0}},
                                        {"reward", GPUR_FLOAT32, {0}},
                                        {"next_obs", GPUR_UINT8, {STACK, SIDE, SIDE}},
                                        {"terminated", GPUR_BOOL, {0}}};
    gpur_replay_config config;
    gpur_replay *replay = NULL;
    bench_must(gpur_replay_config_init(&config, sizeof config), "replay config");
    config.capacity = FRAMES_CAPACITY, config.fields = fields, config.field_count = 5, config.max_batch = 512;
    config.layout = GPUR_LINKED, config.frame_stack = STACK;
    bench_must(gpur_replay_create(device, &config, &replay), "replay");
    return replay;
}

/* Noise: frames of zeros would make products of zeros, which take another time. */
static void fill(gpur_replay *replay)
{
    static unsigned char frame[FRAME];
    gpur_writer_config config;
    gpur_writer *writer = NULL;
    uint64_t state = 3;
    bench_must(gpur_writer_config_init(&config, sizeof config), "writer config");
    config.input = GPUR_INPUT_FRAMES;
    bench_must(gpur_writer_open(replay, &config, &writer), "writer");
    for (int32_t t = 0; t < FRAMES_CAPACITY; t++) {
        const uint8_t ends = t % EPISODE == EPISODE - 1;
        const int32_t action = t % 4;
        const float reward = (float)(t % 3) - 1.0f;
        for (int i = 0; i < FRAME; i++, state = state * 6364136223846793005ull + 1442695040888963407ull)
            frame[i] = (unsigned char)(state >> 56);
        if (t % EPISODE == 0)
            bench_must(gpur_writer_reset(writer, 0, frame), "reset");
        bench_must(gpur_writer_step(writer, &action, &reward, frame, &ends, NULL), "step");
    }
    gpur_writer_destroy(writer);
}

/* One replay's frames are 143 MB, more than a GPU's L2 cache. */
static void measure_nature(bench_report *report, gpur_device *device)
{
    static const int64_t batches[] = {32, 512};
    gpur_replay *const replay = frames_replay(device);
    if (gpur_device_is_cuda(device))
        fill(replay);
    for (int i = 0; i < 2; i++)
        for (int32_t dependent = 0; dependent < 2; dependent++) {
            const step_way way = {
                "nature-dueling", batches[i], {.math = GPUR_MATH_BF16, .unroll = 8, .dependent = dependent}};
            measure_step_way(report, replay, &way);
        }
    gpur_replay_destroy(replay);
}

void bench_steps(bench_report *report, gpur_device *device, gpur_replay *replay)
{
    static const step_how hows[] = {{FP32, 1, 0, 0, 0, 0}, {FP32, 8, 0, 0, 0, 0},  {FP32, 32, 0, 0, 0, 0},
                                    {FP32, 8, 1, 0, 0, 0}, {FP32, 32, 1, 0, 0, 0}, {TF32, 8, 0, 0, 0, 0},
                                    {TF32, 32, 1, 0, 0, 0}};
    measure_small(report, replay, hows, (int)(sizeof hows / sizeof *hows));
    measure_nature(report, device);
}

void bench_one_kernel(bench_report *report, gpur_replay *replay)
{
    static const step_how hows[] = {{FP32, 32, 0, 1, 0, 0},  {FP32, 32, 0, 1, 8, 0},  {FP32, 32, 0, 1, 16, 0},
                                    {FP32, 32, 0, 1, 16, 1}, {FP32, 32, 0, 1, 66, 1}, {FP32, 32, 0, 1, 132, 1}};
    measure_small(report, replay, hows, (int)(sizeof hows / sizeof *hows));
}
