/* SPDX-License-Identifier: MIT */
/*
 * Train steps of the Nature presets (draw of bytes to target copy) against the convolutions and matrix products they
 * are made of, called bare, in order, on memory of the same sizes. Floor: those.
 */
#include "bench/device/convolutions.h"
#include "bench/lib/bench.h"
#include "bench/lib/setup.h"

static void train(void *context, int64_t repeats)
{
    bench_must(gpur_learner_train(context, repeats), "train");
    bench_must(gpur_learner_sync(context), "sync");
}

static void run_case(bench_report *report, gpur_device *device, gpur_replay *replay, const char *preset, int64_t batch)
{
    char name[64], baseline[96];
    gpur_learner_config config;
    bench_must(gpur_learner_config_init(&config, sizeof config), "learner config");
    bench_must(gpur_learner_config_preset(&config, preset), "preset");
    config.batch_size = batch;
    gpur_learner *const learner = bench_learner(replay, preset, batch, 0);
    bare_convolutions *const bare = bare_convolutions_open(device, &config);
    if (!bare)
        bench_must(GPUR_DEVICE_ERROR, "bare convolutions");
    snprintf(name, sizeof name, "%s train step, batch %lld", preset, (long long)batch);
    snprintf(baseline, sizeof baseline, "its convolutions (%s) and products", bare_convolutions_library(bare));
    bench_case one = bench_versus(name, "step", 1, train, baseline, bare_convolutions_run, learner);
    one.variants[1].context = bare;
    bench_run(report, &one);
    bare_convolutions_close(bare);
    gpur_learner_destroy(learner);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *preset;
        int64_t batch;
    } cases[] = {{"nature-dqn", 16}, {"nature-dqn", 32}, {"nature-dueling", 32}, {"nature-dueling", 512}};
    const bench_options options = bench_parse(argc, argv, "a train step against its convolutions", NULL, 0);
    const int count = options.quick ? 1 : 4;
    gpur_device *const device = bench_open(options.device, 0);
    gpur_replay *const replay = bench_stacks_replay(device, 4 * PIXELS_BATCH, GPUR_STACK_FIRST, 5);
    bench_report report = bench_begin(&options, "convolutional train step", bench_describe(device), count);
    for (int i = 0; i < count; i++)
        run_case(&report, device, replay, cases[i].preset, cases[i].batch);
    gpur_replay_destroy(replay);
    gpur_device_close(device);
    return bench_end(&report);
}
