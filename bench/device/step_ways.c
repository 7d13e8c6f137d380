/* SPDX-License-Identifier: MIT */
#include "bench/device/step_ways.h"
#include "bench/device/absent.h"
#include "bench/device/probes.h"
#include "bench/setup.h"
#include "device/device.h"
#include "learn/learner.h"
#include "replay/draw.h"

enum { ROUNDS = 7, ON_CPU = 4, UNROLL_ON_CPU = 8, THREADS = 256 };

typedef struct step_context {
    gpur_learner *learner;
    int64_t steps; /* of one repeat */
} step_context;

static void train(void *context, int64_t repeats)
{
    const step_context *const c = context;
    for (int64_t i = 0; i < repeats; i++)
        bench_must(gpur_learner_train(c->learner, c->steps), "train");
    bench_must(gpur_learner_sync(c->learner), "sync");
}

static void name_way(char *name, size_t bytes, const step_way *w)
{
    static const char *const maths[] = {"fp32", "tf32", "bf16"};
    char how[48];
    if (!w->how.in_one_kernel)
        snprintf(how, sizeof how, "unroll %d%s", (int)w->how.unroll, w->how.dependent ? ", dependent launches" : "");
    else if (w->how.blocks == 0)
        snprintf(how, sizeof how, "one kernel");
    else
        snprintf(how, sizeof how, "one kernel, %s of %d", w->how.as_grid ? "grid" : "cluster", (int)w->how.blocks);
    snprintf(name, bytes, "%s step, batch %lld, %s, %s", w->preset, (long long)w->batch, maths[w->how.math], how);
}

/* Why a CPU need not be asked, or NULL. */
static const char *needs_cuda(const step_way *w)
{
    if (w->how.math != GPUR_MATH_FP32)
        return "a CPU has fp32 alone";
    if (w->how.dependent)
        return "dependent launches are CUDA's";
    if (w->how.in_one_kernel && w->how.blocks > 0)
        return "a CPU runs it as one block";
    if (w->how.in_one_kernel && w->batch > 32)
        return "a CPU takes one core for it, and too long";
    return !w->how.in_one_kernel && w->how.unroll != UNROLL_ON_CPU
               ? "a CPU's recording is called again, whatever its unroll"
               : NULL;
}

static gpur_status open_learner(gpur_replay *replay, const step_way *w, gpur_learner **learner)
{
    gpur_device *const device = gpur_replay_device(replay);
    gpur_learner_config config;
    bench_must(gpur_learner_config_init(&config, sizeof config), "learner config");
    bench_must(gpur_learner_config_preset(&config, w->preset), "preset");
    config.batch_size = w->batch;
    config.math = w->how.math;
    config.unroll = w->how.unroll;
    config.step_kernel = w->how.in_one_kernel ? GPUR_STEP_ONE_KERNEL : GPUR_STEP_LIBRARIES;
    gpur_device_dependent_launches(device, w->how.dependent); /* of what is recorded from here on */
    const gpur_status status = gpur_learner_create(replay, &config, learner);
    gpur_device_dependent_launches(device, 0);
    return status;
}

/* In the wanted shape, or GPUR_UNAVAILABLE. */
static gpur_status shape(gpur_learner *learner, const step_way *w)
{
    const gpur_one_kernel_way way = {.blocks = w->how.blocks, .threads = THREADS, .as_grid = w->how.as_grid};
    if (!w->how.in_one_kernel || w->how.blocks == 0)
        return GPUR_OK;
    learner->one.way = way;
    const gpur_grid grid = gpur_grid_together(learner->device, GPUR_KERNEL_ID_learn_steps, w->how.blocks, THREADS);
    if (grid.blocks < w->how.blocks)
        return gpur_fail(GPUR_UNAVAILABLE, "at most %d of its blocks run at the same time", (int)grid.blocks);
    if (w->how.as_grid)
        return GPUR_OK;
    return probe_needs_cluster(learner->device, GPUR_KERNEL_ID_learn_steps, w->how.blocks);
}

/* Made, and run once: of the ways of a device that nobody has tried before, one that fails is no reason to lose the
 * others. An error that the device does not recover from shows at the next of them, too. */
static gpur_status try_way(gpur_replay *replay, const step_way *w, gpur_learner **learner)
{
    if (w->how.dependent)
        GPUR_TRY(probe_needs_dependent_launches(gpur_replay_device(replay)));
    GPUR_TRY(open_learner(replay, w, learner));
    GPUR_TRY(shape(*learner, w));
    GPUR_TRY(gpur_learner_train(*learner, 1));
    return gpur_learner_sync(*learner);
}

void measure_step_way(bench_report *report, gpur_replay *replay, const step_way *w)
{
    char name[96];
    const int on_cuda = gpur_device_is_cuda(gpur_replay_device(replay));
    step_context c = {NULL, on_cuda ? GPUR_LAUNCH_STEPS : ON_CPU};
    name_way(name, sizeof name, w);
    if (!on_cuda && needs_cuda(w)) {
        bench_absent(report, name, needs_cuda(w));
        return;
    }
    if (try_way(replay, w, &c.learner) != GPUR_OK) {
        bench_absent(report, name, gpur_last_error());
        gpur_learner_destroy(c.learner);
        return;
    }
    const bench_figure figure = {.name = name,
                                 .items = (double)c.steps,
                                 .item = "step",
                                 .body = train,
                                 .context = &c,
                                 .rounds = report->options->rounds < ROUNDS ? report->options->rounds : ROUNDS};
    bench_measure(report, &figure);
    gpur_learner_destroy(c.learner);
}
