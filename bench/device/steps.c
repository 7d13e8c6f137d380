/* SPDX-License-Identifier: MIT */
/*
 * Whole train steps, from the sample to the last kernel. A case compares the variants of one decision: how many steps a
 * graph holds, dependent launches, one stream or two, arithmetic, a graph of kernels or one kernel. The first steps of
 * each variant are compared with those of the first, of the same seed. Also what a node of a graph costs that does
 * nothing.
 */
#include "bench/device/parts.h"

#include "learn/learner.h"
#include "replay/sampler/gather.h"
#include "replay/view.h"

#include <math.h>
#include <string.h>

enum { CHECKED = 200, ROUNDS = 15, CHAIN = 64, CHAIN_REPETITIONS = 32, FRAMES = 20000 };

/* How train steps are done. */
typedef struct step_variant {
    const char *name;
    int32_t math;         /* GPUR_MATH_... */
    int32_t unroll;       /* steps of the long graph */
    int32_t is_dependent; /* 1: dependent launches */
    int32_t is_fused;     /* 1: whole steps are one kernel */
    int32_t has_second;   /* 1: a second stream for the target network's pass and the gradients of weights */
} step_variant;

enum { FP32 = GPUR_MATH_FP32, TF32 = GPUR_MATH_TF32, BF16 = GPUR_MATH_BF16 };

/* A case; its first variant is the reference. */
typedef struct decision {
    const char *name, *preset;
    int64_t batch;
    step_variant variants[BENCH_MAX_VARIANTS]; /* up to the first without a name */
} decision;

typedef struct step_context {
    gpur_learner *learner;
    int64_t steps; /* of one repeat */
    float loss;    /* mean of the first CHECKED steps */
} step_context;

static void train(void *context, int64_t repeats)
{
    const step_context *const c = context;
    for (int64_t i = 0; i < repeats; i++)
        bench_must(gpur_learner_train(c->learner, c->steps), "train");
    bench_must(gpur_learner_sync(c->learner), "sync");
}

static gpur_status open_variant(gpur_replay *replay, const decision *d, const step_variant *w, step_context *c)
{
    gpur_device *const device = gpur_replay_device(replay);
    gpur_learner_config config;
    bench_must(gpur_learner_config_init(&config, sizeof config), "learner config");
    bench_must(gpur_learner_config_preset(&config, d->preset), "preset");
    config.batch_size = d->batch;
    config.math = w->math;
    config.unroll = w->unroll;
    config.step_kernel = w->is_fused ? GPUR_STEP_FUSED : GPUR_STEP_LIBRARIES;
    gpur_device_dependent_launches(device, w->is_dependent); /* for what is recorded from here on */
    gpur_device_second_streams(device, w->has_second);
    const gpur_status status = gpur_learner_create(replay, &config, &c->learner);
    gpur_device_dependent_launches(device, 0);
    gpur_device_second_streams(device, 0);
    return status;
}

/* Trains the first steps: all must be done, none skipped, and the loss near the reference's, since steps that do
 * nothing or something else would look fast. BF16 is not compared: how far off its loss may be is not known. */
static gpur_status check_variant(bench_report *report, const char *name, const step_variant *w, step_context *c,
                                 float wanted)
{
    char text[192];
    gpur_learner_stats s = {.size = sizeof s};
    GPUR_TRY(gpur_learner_train(c->learner, CHECKED));
    GPUR_TRY(gpur_learner_sync(c->learner));
    GPUR_TRY(gpur_learner_get_stats(c->learner, &s));
    const float tolerance = w->math == TF32 ? 1e-2f : 1e-3f;
    const int is_near = w->math == BF16 ? isfinite(s.mean_loss) : fabsf(s.mean_loss - wanted) <= tolerance * wanted;
    c->loss = s.mean_loss;
    snprintf(text, sizeof text, "%s, %s: steps, skipped, loss", name, w->name);
    bench_check(report, text, (s.steps != CHECKED) + (s.skipped != 0) + !(is_near || wanted == 0), 3);
    return GPUR_OK;
}

static void run_decision(bench_report *report, gpur_replay *replay, const decision *d)
{
    step_context contexts[BENCH_MAX_VARIANTS] = {{NULL}};
    char name[96];
    snprintf(name, sizeof name, "%s step, batch %lld: %s", d->preset, (long long)d->batch, d->name);
    bench_case one = {.name = name, .item = "step", .items = GPUR_LAUNCH_STEPS, .rounds = ROUNDS};
    for (int i = 0; i < BENCH_MAX_VARIANTS && d->variants[i].name; i++) {
        const step_variant *const w = &d->variants[i];
        step_context *const c = &contexts[i];
        c->steps = GPUR_LAUNCH_STEPS;
        gpur_status status = open_variant(replay, d, w, c);
        if (status == GPUR_OK)
            status = check_variant(report, name, w, c, i ? contexts[0].loss : 0);
        if (status == GPUR_OK) {
            one.variants[one.count++] = (bench_variant){.name = w->name, .body = train, .context = c};
            continue;
        }
        char text[192];
        snprintf(text, sizeof text, "%s, %s", name, w->name);
        bench_absent(report, text, status);
        if (i == 0)
            break; /* nothing to compare the others with */
    }
    if (one.count > 0)
        bench_run(report, &one);
    for (int i = 0; i < BENCH_MAX_VARIANTS; i++)
        gpur_learner_destroy(contexts[i].learner);
}

static const decision small_decisions[] = {
    {"steps in a graph",
     "melee-gpu",
     0,
     {{"graph of 8", FP32, 8, 0}, {"graph of 1", FP32, 1, 0}, {"graph of 32", FP32, 32, 0}}},
    {"dependent launches", "melee-gpu", 0, {{"off", FP32, 32, 0}, {"on", FP32, 32, 1}}},
    {"streams", "melee-gpu", 0, {{"one", FP32, 32, 0}, {"two", FP32, 32, 0, 0, 1}}},
    {"arithmetic", "melee-gpu", 0, {{"FP32", FP32, 32, 0}, {"TF32", TF32, 32, 0}}},
    {"graph or one kernel", "melee-gpu", 0, {{"graph of 32", FP32, 32, 0}, {"one kernel", FP32, 32, 0, 1}}},
};
static const decision nature_decisions[] = {
    {"dependent launches", "nature-dueling", 0, {{"off", BF16, 8, 0}, {"on", BF16, 8, 1}}},
    {"arithmetic", "nature-dueling", 0, {{"FP32", FP32, 8, 0}, {"TF32", TF32, 8, 0}, {"BF16", BF16, 8, 0}}},
    {"streams", "nature-dueling", 0, {{"one", BF16, 8, 0}, {"two", BF16, 8, 0, 0, 1}}},
};

/* A chain of kernels y += 1, each of which needs the one before: what a node costs that does nothing. */
typedef struct chain {
    gpur_device *device;
    float *memory; /* y, and the bias 1 */
} chain;

static gpur_status record_chain(void *context, gpur_stream *stream)
{
    const chain *const c = context;
    const gpur_bias_activation_args args = {
        .y = c->memory, .bias = c->memory + 1, .batch = 1, .features = 1, .pitch = 1};
    for (int i = 0; i < CHAIN; i++)
        GPUR_TRY(gpur_launch_bias_activation(stream, gpur_grid_elements(c->device, 1), &args));
    return GPUR_OK;
}

static void run_chain(bench_report *report, gpur_device *device)
{
    const float start[2] = {0.0f, 1.0f};
    chain c = {.device = device};
    recorded plain, dependent;
    bench_must(gpur_device_alloc(device, sizeof start, (void **)&c.memory), "memory");
    bench_must(gpur_device_copy(device, c.memory, start, sizeof start), "copy");
    bench_must(recorded_open(&plain, device, record_chain, &c, 8, CHAIN_REPETITIONS), "a chain of kernels");
    gpur_device_dependent_launches(device, 1);
    bench_must(recorded_open(&dependent, device, record_chain, &c, 8, CHAIN_REPETITIONS), "a chain of kernels");
    gpur_device_dependent_launches(device, 0);
    bench_case one = bench_versus("a chain of 64 kernels that do nothing", "node", CHAIN * CHAIN_REPETITIONS,
                                  recorded_run, "dependent launches off", recorded_run, &dependent);
    one.variants[0].name = "dependent launches on";
    one.variants[1].context = &plain;
    bench_run(report, &one);
    recorded_close(&plain);
    recorded_close(&dependent);
    gpur_device_free(device, c.memory);
}

/* A CPU has nothing to decide: its graph is called again for every step. */
static void run_on_cpu(bench_report *report, gpur_replay *replay)
{
    step_context c = {.learner = bench_learner(replay, "melee-gpu", 32, 0), .steps = 4};
    const bench_case one = bench_alone("melee-gpu step, batch 32", "step", 4, "gpureplay", train, &c);
    bench_run(report, &one);
    gpur_learner_destroy(c.learner);
}

void bench_steps(bench_report *report, gpur_device *device, gpur_replay *replay)
{
    static const int64_t batches[] = {32, 256, 1024}, nature_batches[] = {32, 512};
    run_chain(report, device);
    if (!bench_is_cuda(device)) {
        run_on_cpu(report, replay);
        return;
    }
    gpur_replay *const frames = bench_frames_replay(device, FRAMES, GPUR_STACK_FIRST);
    for (size_t i = 0; i < sizeof nature_decisions / sizeof *nature_decisions; i++)
        for (int b = 0; b < 2; b++) {
            decision d = nature_decisions[i];
            d.batch = nature_batches[b];
            run_decision(report, frames, &d);
        }
    gpur_replay_destroy(frames);
    for (size_t i = 0; i < sizeof small_decisions / sizeof *small_decisions; i++)
        for (int b = 0; b < 3; b++) {
            decision d = small_decisions[i];
            d.batch = batches[b];
            run_decision(report, replay, &d);
        }
}
