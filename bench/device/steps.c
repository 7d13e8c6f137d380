/* SPDX-License-Identifier: MIT */
/* The whole train step of preset "melee-gpu", inside one call for many of them. */
#include "bench/device/parts.h"
#include "bench/setup.h"

typedef struct step_context {
    gpur_learner *learner;
    int64_t steps; /* of one call */
} step_context;

static void train(void *context, int64_t repeats)
{
    const step_context *const c = context;
    for (int64_t i = 0; i < repeats; i++)
        bench_must(gpur_learner_train(c->learner, c->steps), "train");
    bench_must(gpur_learner_sync(c->learner), "sync");
}

/* 0 when the device has no matrix products; gpur_last_error says why. */
static int measure_batch(bench_report *report, gpur_replay *replay, int64_t batch, int32_t math)
{
    char name[64];
    gpur_learner_config config;
    step_context c = {NULL, report->options->quick ? 100 : 1000};
    bench_must(gpur_learner_config_init(&config, sizeof config), "learner config");
    bench_must(gpur_learner_config_preset(&config, "melee-gpu"), "preset");
    config.batch_size = batch;
    config.math = math;
    const gpur_status status = gpur_learner_create(replay, &config, &c.learner);
    if (status == GPUR_UNAVAILABLE)
        return 0;
    bench_must(status, "learner");
    snprintf(name, sizeof name, "melee-gpu step, batch %lld, %s, train(%lld)", (long long)batch,
             math == GPUR_MATH_TF32 ? "tf32" : "fp32", (long long)c.steps);
    const bench_figure figure = {
        .name = name, .items = (double)c.steps, .item = "step", .body = train, .context = &c, .rounds = 7};
    bench_measure(report, &figure);
    gpur_learner_destroy(c.learner);
    return 1;
}

void bench_steps(bench_report *report, gpur_device *device, gpur_replay *replay)
{
    static const int64_t batches[] = {32, 256, 16, 64, 128, 512, 1024};
    const int count = report->options->quick ? 2 : 7;
    gpur_device_info info = {.size = sizeof info};
    bench_must(gpur_device_get_info(device, &info), "device info");
    for (int i = 0; i < count; i++)
        for (int32_t math = GPUR_MATH_FP32; math <= (info.is_cuda ? GPUR_MATH_TF32 : GPUR_MATH_FP32); math++)
            if (!measure_batch(report, replay, batches[i], math)) {
                printf("no train steps: %s\n", gpur_last_error());
                return;
            }
}
