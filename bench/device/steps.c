/* SPDX-License-Identifier: MIT */
/*
 * Whole train steps, from the sample to the last kernel. A case compares the variants of one decision: arithmetic, or a
 * graph of kernels or one kernel. The first steps of each variant are compared with those of the first, of the same
 * seed. Also what a node of a graph costs that does nothing.
 */
#include "bench/device/parts.h"

#include "learn/dqn/dqn.h"
#include "replay/sampler/gather.h"
#include "replay/view.h"

#include <math.h>
#include <string.h>

enum { CHECKED = 200, ROUNDS = 15, CHAIN = 64, CHAIN_REPETITIONS = 32, FRAMES = 20000 };

/* How train steps are done. */
typedef struct step_variant {
    const char *name;
    int32_t math;     /* GPUR_MATH_... */
    int32_t is_fused; /* 1: whole steps are one kernel */
} step_variant;

enum { FP32 = GPUR_MATH_FP32, TF32 = GPUR_MATH_TF32, BF16 = GPUR_MATH_BF16 };

/* A case; its first variant is the reference. */
typedef struct decision {
    const char *name, *preset; /* `name` says also how the rows are drawn, if not uniformly */
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

/* Gives all transitions the same priority, so that each variant begins as the first one did. */
static void reset_priorities(gpur_replay *replay)
{
    enum { CHUNK = PIXELS_BATCH };
    int64_t ids[CHUNK];
    float ones[CHUNK];
    gpur_replay_stats stats = {.size = sizeof stats};
    bench_must(gpur_replay_get_stats(replay, &stats), "stats");
    for (int64_t done = 0; done < stats.visible; done += CHUNK) {
        const int64_t count = stats.visible - done < CHUNK ? stats.visible - done : CHUNK;
        for (int64_t i = 0; i < count; i++)
            ids[i] = stats.first_id + done + i, ones[i] = 1.0f;
        bench_must(gpur_replay_update_priorities(replay, count, ids, ones, NULL), "priorities");
    }
}

static gpur_status open_variant(gpur_replay *replay, const decision *d, const step_variant *w, step_context *c)
{
    gpur_dqn_config config;
    bench_must(gpur_dqn_config_init(&config, sizeof config), "learner config");
    bench_must(gpur_dqn_config_preset(&config, d->preset), "preset");
    config.batch_size = d->batch;
    config.math = w->math;
    config.step_kernel = w->is_fused ? GPUR_STEP_FUSED : GPUR_STEP_LIBRARIES;
    return gpur_dqn_create(replay, &config, &c->learner);
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
    if (!bench_wants(report, name))
        return;
    bench_case one = {.name = name, .item = "step", .items = GPUR_LAUNCH_STEPS, .rounds = ROUNDS};
    for (int i = 0; i < BENCH_MAX_VARIANTS && d->variants[i].name; i++) {
        const step_variant *const w = &d->variants[i];
        step_context *const c = &contexts[i];
        c->steps = GPUR_LAUNCH_STEPS;
        if (gpur_replay_settings(replay)->prioritized)
            reset_priorities(replay);
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
    {"graph or one kernel", "melee-gpu", 0, {{"graph", FP32, 0}, {"one kernel", FP32, 1}}},
    {"arithmetic", "melee-gpu", 0, {{"FP32", FP32, 0}, {"TF32", TF32, 0}}},
};
static const decision nature_decisions = {
    "arithmetic", "nature-dueling", 0, {{"FP32", FP32, 0}, {"TF32", TF32, 0}, {"BF16", BF16, 0}}};

/* From the draw by priority and its importance weights to the new priorities of the rows. */
static const decision small_by_priority = {
    "by priority", "melee-gpu", 0, {{"graph", FP32, 0}, {"one kernel", FP32, 1}}};
static const decision nature_by_priority = {
    "by priority", "nature-dueling", 0, {{"FP32", FP32, 0}, {"TF32", TF32, 0}, {"BF16", BF16, 0}}};

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
    recorded kernels;
    bench_must(gpur_device_alloc(device, sizeof start, (void **)&c.memory), "memory");
    bench_must(gpur_device_copy(device, c.memory, start, sizeof start), "copy");
    bench_must(recorded_open(&kernels, device, record_chain, &c, 8, CHAIN_REPETITIONS), "a chain of kernels");
    const bench_case one = bench_alone("a chain of 64 kernels that do nothing", "node", CHAIN * CHAIN_REPETITIONS,
                                       "gpureplay", recorded_run, &kernels);
    bench_run(report, &one);
    recorded_close(&kernels);
    gpur_device_free(device, c.memory);
}

/* A CPU has nothing to decide: its graph is called again for every step. */
static void run_on_cpu(bench_report *report, gpur_replay *replay, const char *name)
{
    step_context c = {.learner = bench_learner(replay, "melee-gpu", 32, 0), .steps = 4};
    const bench_case one = bench_alone(name, "step", 4, "gpureplay", train, &c);
    bench_run(report, &one);
    gpur_learner_destroy(c.learner);
}

static void run_decisions(bench_report *report, gpur_replay *replay, const decision *d, const int64_t *batches,
                          int count)
{
    for (int i = 0; i < count; i++) {
        decision one = *d;
        one.batch = batches[i];
        run_decision(report, replay, &one);
    }
}

/* Destroys `frames`. */
static void run_frames(bench_report *report, gpur_replay *frames, const decision *d)
{
    static const int64_t batches[] = {32, 512};
    run_decisions(report, frames, d, batches, 2);
    gpur_replay_destroy(frames);
}

void bench_steps(bench_report *report, gpur_device *device, gpur_replay *replay, gpur_replay *prioritized)
{
    static const int64_t batches[] = {32, 64, 128, 256, 1024}, priority_batches[] = {32, 256, 1024};
    run_chain(report, device);
    if (!bench_is_cuda(device)) {
        run_on_cpu(report, replay, "melee-gpu step, batch 32");
        run_on_cpu(report, prioritized, "melee-gpu step, batch 32: by priority");
        return;
    }
    run_frames(report, bench_frames_replay(device, FRAMES, GPUR_STACK_FIRST), &nature_decisions);
    run_frames(report, bench_prioritized_frames_replay(device, FRAMES), &nature_by_priority);
    for (size_t i = 0; i < sizeof small_decisions / sizeof *small_decisions; i++)
        run_decisions(report, replay, &small_decisions[i], batches, 5);
    run_decisions(report, prioritized, &small_by_priority, priority_batches, 3);
}
