/* SPDX-License-Identifier: MIT */
#include "bench/device/step_ways.h"
#include "bench/device/absent.h"
#include "bench/device/equal.h"
#include "bench/device/probes.h"
#include "bench/setup.h"
#include "device/device.h"
#include "learn/learner.h"
#include "replay/sampler/gather.h"

#include <math.h>

enum { ROUNDS = 7, ON_CPU = 4, UNROLL_ON_CPU = 8, THREADS = 256, CHECKED = 200 };

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

/* What the first steps, all from the same seed, come to. */
static gpur_status run_checked(gpur_learner *learner, gpur_learner_stats *stats)
{
    stats->size = sizeof *stats;
    GPUR_TRY(gpur_learner_train(learner, CHECKED));
    GPUR_TRY(gpur_learner_sync(learner));
    return gpur_learner_get_stats(learner, stats);
}

/* Made, and run for the steps that are checked: of the ways of a device that nobody has tried before, one that fails is
 * no reason to lose the others. An error that the device does not recover from shows at the next of them, too. */
static gpur_status try_way(gpur_replay *replay, const step_way *w, gpur_learner **learner, gpur_learner_stats *stats)
{
    if (w->how.dependent)
        GPUR_TRY(probe_needs_dependent_launches(gpur_replay_device(replay)));
    GPUR_TRY(open_learner(replay, w, learner));
    GPUR_TRY(shape(*learner, w));
    return run_checked(*learner, stats);
}

/* Mean loss of the library's float32 way of this batch, asked for once for the ways of a batch that follow one another;
 * NAN where there is none. */
static double wanted_loss(gpur_replay *replay, const step_way *w)
{
    static int64_t batch;
    static double loss;
    const step_way plain = {w->preset, w->batch, {.math = GPUR_MATH_FP32, .unroll = UNROLL_ON_CPU}};
    gpur_learner *learner = NULL;
    gpur_learner_stats stats;
    if (w->how.math == GPUR_MATH_BF16) /* whose loss is another, and by how much nobody has said */
        return NAN;
    if (batch == w->batch)
        return loss;
    loss = try_way(replay, &plain, &learner, &stats) == GPUR_OK ? (double)stats.mean_loss : NAN;
    batch = w->batch;
    gpur_learner_destroy(learner);
    return loss;
}

/* All steps done, none of them empty, and the loss, where it is known: as the time of steps that do nothing, or
 * something else, would look as good. */
static void check_way(bench_report *report, const char *way, const step_way *w, const gpur_learner_stats *s,
                      double wanted)
{
    char name[128];
    const double loss = (double)s->mean_loss, room = w->how.math == GPUR_MATH_TF32 ? 1e-2 : 1e-3;
    const int is_near = isnan(wanted) ? isfinite(loss) : fabs(loss - wanted) <= room * fabs(wanted);
    const int64_t differ = (s->steps != CHECKED) + (s->skipped != 0) + !is_near;
    if (differ)
        fprintf(stderr, "%s: %lld steps, %lld skipped, mean loss %.6g; wanted %d, 0, %.6g\n", way, (long long)s->steps,
                (long long)s->skipped, loss, CHECKED, wanted);
    snprintf(name, sizeof name, "%s: steps, skipped, loss", way);
    bench_equal(report, name, differ, 3);
}

void measure_step_way(bench_report *report, gpur_replay *replay, const step_way *w)
{
    char name[96];
    const int on_cuda = gpur_device_is_cuda(gpur_replay_device(replay));
    step_context c = {NULL, on_cuda ? GPUR_LAUNCH_STEPS : ON_CPU};
    gpur_learner_stats stats;
    name_way(name, sizeof name, w);
    if (!on_cuda && needs_cuda(w)) {
        bench_absent(report, name, needs_cuda(w));
        return;
    }
    const double wanted = wanted_loss(replay, w);
    const gpur_status status = try_way(replay, w, &c.learner, &stats);
    if (status != GPUR_OK) {
        bench_missing(report, name, status);
        gpur_learner_destroy(c.learner);
        return;
    }
    check_way(report, name, w, &stats, wanted);
    const bench_figure figure = {.name = name,
                                 .items = (double)c.steps,
                                 .item = "step",
                                 .body = train,
                                 .context = &c,
                                 .rounds = report->options->rounds < ROUNDS ? report->options->rounds : ROUNDS};
    bench_measure(report, &figure);
    gpur_learner_destroy(c.learner);
}
