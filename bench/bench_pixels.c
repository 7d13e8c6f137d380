/* SPDX-License-Identifier: MIT */
/*
 * Sample + gather of B transitions of 4 frames of 84 x 84 bytes, frames stored once, against a memcpy of as many bytes
 * as a batch's obs and next_obs have, from memory that no cache holds. Floor: a memcpy reads every byte of the two
 * stacks; a gather reads five frames of eight and writes all eight. One thread.
 *
 * And the draw of a learner whose network begins with a convolution, from frames to what that reads: in one kernel
 * against two with the bytes between. One thread, and two.
 */
#include "bench.h"
#include "bench/device/observed.h"
#include "setup.h"

#include <string.h>

enum { FRAME = 84 * 84, STACK = 4, ROW_BYTES = 2 * STACK * FRAME, CAPACITY = 50000, EPISODE = 500, MOST = 512 };

typedef struct pixels_context {
    gpur_device *device;
    int on_cuda;
    gpur_replay *replay;
    int64_t count;
    unsigned char *table; /* (table_bytes) of the device */
    unsigned char *out;   /* (MOST, ROW_BYTES) of the device */
    int64_t table_bytes, position;
} pixels_context;

static void sample(void *context, int64_t repeats)
{
    const pixels_context *const c = context;
    gpur_batch *batch = NULL;
    for (int64_t i = 0; i < repeats; i++) {
        bench_must(gpur_replay_sample(c->replay, c->count, NULL, &batch), "sample");
        bench_must(gpur_batch_sync(batch), "sync");
        gpur_batch_release(batch);
    }
}

static void copy(void *context, int64_t repeats)
{
    pixels_context *const c = context;
    const int64_t bytes = c->count * ROW_BYTES;
    for (int64_t i = 0; i < repeats; i++) {
        if (c->position + bytes > c->table_bytes)
            c->position = 0;
        if (c->on_cuda)
            bench_must(gpur_device_copy(c->device, c->out, c->table + c->position, bytes), "copy");
        else
            memcpy(c->out, c->table + c->position, (size_t)bytes);
        c->position += bytes;
    }
}

static gpur_replay *make_replay(gpur_device *device, int32_t axis)
{
    const int last = axis == GPUR_STACK_LAST;
    const gpur_field fields[] = {
        {"obs", GPUR_UINT8, {last ? 84 : STACK, 84, last ? STACK : 84}},
        {"action", GPUR_INT32, {0}},
        {"reward", GPUR_FLOAT32, {0}},
        {"next_obs", GPUR_UINT8, {last ? 84 : STACK, 84, last ? STACK : 84}},
        {"terminated", GPUR_BOOL, {0}},
    };
    gpur_replay_config config;
    gpur_replay *replay = NULL;
    bench_must(gpur_replay_config_init(&config, sizeof config), "replay config");
    config.capacity = CAPACITY, config.fields = fields, config.field_count = 5, config.max_batch = MOST;
    config.layout = GPUR_LINKED, config.frame_stack = STACK, config.stack_axis = axis;
    bench_must(gpur_replay_create(device, &config, &replay), "replay");
    return replay;
}

/* Episodes of EPISODE steps, until it is full. */
static void fill(gpur_replay *replay)
{
    static unsigned char frame[FRAME];
    gpur_writer_config config;
    gpur_writer *writer = NULL;
    const int32_t action = 0;
    const float reward = 0;
    bench_must(gpur_writer_config_init(&config, sizeof config), "writer config");
    config.input = GPUR_INPUT_FRAMES;
    bench_must(gpur_writer_open(replay, &config, &writer), "writer");
    for (int t = 0; t < CAPACITY; t++) {
        const uint8_t ends = t % EPISODE == EPISODE - 1;
        memset(frame, t, 256); /* no two frames alike */
        if (t % EPISODE == 0)
            bench_must(gpur_writer_reset(writer, 0, frame), "reset");
        bench_must(gpur_writer_step(writer, &action, &reward, frame, &ends, NULL), "step");
    }
    gpur_writer_destroy(writer);
}

static void run_cases(bench_report *report, gpur_device *device, pixels_context *c, int32_t axis)
{
    static const int64_t counts[] = {32, 512};
    c->replay = make_replay(device, axis);
    fill(c->replay);
    for (int i = 0; i < 2; i++) {
        char name[64];
        snprintf(name, sizeof name, "gather %lld x 4 frames, %s axis", (long long)counts[i],
                 axis == GPUR_STACK_LAST ? "last" : "first");
        c->count = counts[i];
        const bench_case batch = {.name = name,
                                  .baseline = "memcpy of the same bytes",
                                  .items = (double)counts[i],
                                  .item = "row",
                                  .ours = sample,
                                  .bare = copy,
                                  .context = c};
        bench_run(report, &batch);
    }
    gpur_replay_destroy(c->replay);
}

static void run_observed(bench_report *report, gpur_replay *replay, int64_t rows, int threads)
{
    char name[80];
    observed_draws *const draws = observed_open(replay, rows);
    if (!draws)
        bench_must(GPUR_OUT_OF_MEMORY, "draws for a first layer");
    if (!observed_agree(draws))
        bench_must(GPUR_DEVICE_ERROR, "one kernel and two that should make the same");
    snprintf(name, sizeof name, "draw %lld for a first layer, %d thread%s", (long long)rows, threads,
             threads > 1 ? "s" : "");
    const bench_case draw = {.name = name,
                             .baseline = "by way of the bytes",
                             .items = (double)rows,
                             .item = "row",
                             .ours = observed_by_one,
                             .bare = observed_by_two,
                             .context = draws};
    bench_run(report, &draw);
    observed_close(draws);
}

/* The number of threads is a device's own. */
static void run_first_layer(bench_report *report, const char *name, int threads)
{
    gpur_device *const device = bench_open(name, threads);
    gpur_replay *const replay = make_replay(device, GPUR_STACK_FIRST);
    fill(replay);
    run_observed(report, replay, 32, threads);
    run_observed(report, replay, MOST, threads);
    gpur_replay_destroy(replay);
    gpur_device_close(device);
}

int main(int argc, char **argv)
{
    bench_options options;
    bench_report report;
    char settings[256];
    const int stop = bench_parse(&options, argc, argv, "sample + gather of pixels against a memcpy of the same bytes");
    if (stop)
        return stop - 1;
    gpur_device *const device = bench_open(options.device, 1);
    pixels_context c = {.device = device, .table_bytes = (int64_t)CAPACITY * FRAME};
    c.on_cuda = strncmp(options.device, "cuda", 4) == 0;
    bench_must(gpur_device_alloc(device, c.table_bytes, (void **)&c.table), "the baseline's memory");
    bench_must(gpur_device_alloc(device, (int64_t)MOST * ROW_BYTES, (void **)&c.out), "the baseline's memory");
    bench_describe(device, settings, sizeof settings);
    if (bench_begin(&report, &options, "sample + gather of pixels", settings, c.on_cuda ? 6 : 8))
        return 1;
    run_cases(&report, device, &c, GPUR_STACK_FIRST);
    run_cases(&report, device, &c, GPUR_STACK_LAST);
    gpur_device_free(device, c.out);
    gpur_device_free(device, c.table);
    gpur_device_close(device);
    for (int threads = 1; threads <= (c.on_cuda ? 1 : 2); threads++)
        run_first_layer(&report, options.device, threads);
    return bench_end(&report);
}
