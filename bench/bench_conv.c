/* SPDX-License-Identifier: MIT */
/*
 * Train steps of the Nature presets (draw of bytes to target copy) against the convolutions and matrix products they
 * are made of, called bare, in order, on memory of the same sizes. Floor: those.
 */
#include "bench.h"
#include "device/nature.h"
#include "setup.h"

#include <stdlib.h>
#include <string.h>

enum { PIXELS = 84 * 84 * 4, CAPACITY = 2048, ROW = 2 * PIXELS + 12 };

static void train(void *context, int64_t repeats)
{
    bench_must(gpur_learner_train(context, repeats), "train");
    bench_must(gpur_learner_sync(context), "sync");
}

/* Our step and the bare one need a context each; bench_case has one for both. */
typedef struct pair {
    gpur_learner *learner;
    bare_nature *bare;
} pair;

static void ours(void *context, int64_t repeats)
{
    train(((const pair *)context)->learner, repeats);
}

static void bare(void *context, int64_t repeats)
{
    bare_nature_run(((const pair *)context)->bare, repeats);
}

static void fill(gpur_replay *replay)
{
    unsigned char *const row = calloc(1, ROW);
    gpur_writer *writer = NULL;
    if (!row)
        bench_must(GPUR_OUT_OF_MEMORY, "a row");
    bench_must(gpur_writer_create(replay, 1, &writer), "writer");
    for (uint32_t i = 0; i < CAPACITY; i++) {
        for (uint32_t p = 0; p < 2 * PIXELS; p++)
            row[p] = (unsigned char)((p * 2654435761u + i * 40503u) >> 24);
        bench_must(gpur_writer_append(writer, 1, row, NULL), "append");
    }
    gpur_writer_destroy(writer);
    free(row);
}

static gpur_replay *open_replay(gpur_device *device)
{
    static const gpur_field fields[] = {{"obs", GPUR_UINT8, {4, 84, 84}},
                                        {"next_obs", GPUR_UINT8, {4, 84, 84}},
                                        {"action", GPUR_INT32, {0}},
                                        {"reward", GPUR_FLOAT32, {0}},
                                        {"terminated", GPUR_BOOL, {0}}};
    gpur_replay_config config;
    gpur_replay *replay = NULL;
    bench_must(gpur_replay_config_init(&config, sizeof config), "replay config");
    config.capacity = 2 * CAPACITY, config.max_batch = 1024;
    config.fields = fields, config.field_count = 5;
    bench_must(gpur_replay_create(device, &config, &replay), "replay");
    fill(replay);
    return replay;
}

typedef struct conv_case {
    const char *preset;
    int64_t batch;
} conv_case;

static void run_case(bench_report *report, gpur_device *device, gpur_replay *replay, const conv_case *c)
{
    char name[64], baseline[96];
    gpur_learner_config config;
    pair p;
    bench_must(gpur_learner_config_init(&config, sizeof config), "learner config");
    bench_must(gpur_learner_config_preset(&config, c->preset), "preset");
    config.batch_size = c->batch;
    bench_must(gpur_learner_create(replay, &config, &p.learner), "learner");
    p.bare = bare_nature_open(device, &config);
    if (!p.bare)
        bench_must(GPUR_DEVICE_ERROR, "bare convolutions");
    snprintf(name, sizeof name, "%s train step, batch %lld", c->preset, (long long)c->batch);
    snprintf(baseline, sizeof baseline, "its convolutions (%s) and products", bare_nature_way(p.bare));
    const bench_case step = {
        .name = name, .baseline = baseline, .items = 1, .item = "step", .ours = ours, .bare = bare, .context = &p};
    bench_run(report, &step);
    bare_nature_close(p.bare);
    gpur_learner_destroy(p.learner);
}

int main(int argc, char **argv)
{
    static const conv_case cases[] = {
        {"nature-dqn", 16}, {"nature-dqn", 32}, {"nature-dueling", 32}, {"nature-dueling", 512}};
    bench_options options;
    bench_report report;
    char settings[256];
    const int stop = bench_parse(&options, argc, argv, "train step of convolutions against its own convolutions");
    if (stop)
        return stop - 1;
    gpur_device *const device = bench_open(options.device, 0);
    gpur_replay *const replay = open_replay(device);
    const int count = options.quick ? 1 : 4;
    if (bench_begin(&report, &options, "convolutional train step", bench_describe(device, settings, sizeof settings),
                    count))
        return 1;
    for (int i = 0; i < count; i++)
        run_case(&report, device, replay, &cases[i]);
    gpur_replay_destroy(replay);
    gpur_device_close(device);
    return bench_end(&report);
}
