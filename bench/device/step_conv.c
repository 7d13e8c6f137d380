/* SPDX-License-Identifier: MIT */
/*
 * Train steps of the Nature presets (from sampling to target copy) against the convolutions and matrix products they
 * are made of, called bare by the device's libraries, in order, on memory of the same sizes.
 */
#include "bench/lib/bench.h"
#include "bench/lib/setup.h"

#include "learn/network/pass.h"

typedef struct bare_convolutions {
    gpur_device *device;
    gpur_stream *stream;
    gpur_network network;
    gpur_pass online, target;
    gpur_backward backward;
    float *weights, *gradient; /* (P) */
    void *memory, *workspace;
} bare_convolutions;

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static void assign(bare_convolutions *b, gpur_arena *arena)
{
    const int64_t passes = larger(b->online.workspace, b->target.workspace);
    b->weights = gpur_arena_floats(arena, b->network.params.count);
    b->gradient = gpur_arena_floats(arena, b->network.params.count);
    b->online.activations[0] = gpur_arena_floats(arena, b->online.rows * b->online.pitch[0]);
    b->target.activations[0] = gpur_arena_floats(arena, b->target.rows * b->target.pitch[0]);
    gpur_pass_assign(&b->online, arena);
    gpur_pass_assign(&b->target, arena);
    gpur_backward_assign(&b->backward, arena);
    b->workspace = gpur_arena_alloc(arena, larger(passes, b->backward.workspace));
}

static gpur_status open_bare(bare_convolutions *b, const gpur_dqn_config *config)
{
    const gpur_input_shape stack = {84 * 84 * 4, 84, 84, 4};
    const gpur_pass_options options = gpur_pass_options_of(config->math);
    const int64_t batch = config->batch_size, online = config->double_dqn ? 2 * batch : batch;
    gpur_arena arena = {NULL, 0};
    GPUR_TRY(gpur_stream_create(b->device, &b->stream));
    GPUR_TRY(gpur_network_build(&b->network, &config->network, &stack));
    const int64_t pitch = gpur_input_pitch(&b->network);
    GPUR_TRY(gpur_pass_open(&b->online, b->device, &b->network, online, pitch, &options));
    GPUR_TRY(gpur_pass_open(&b->target, b->device, &b->network, batch, pitch, &options));
    GPUR_TRY(gpur_backward_open(&b->backward, &b->online, batch, 0));
    assign(b, &arena);
    GPUR_TRY(gpur_memory_alloc(b->device, arena.used, "bare convolutions", &b->memory));
    arena.base = b->memory, arena.used = 0;
    assign(b, &arena);
    return GPUR_OK;
}

static void close_bare(bare_convolutions *b)
{
    gpur_stream_destroy(b->stream);
    gpur_backward_close(&b->backward);
    gpur_pass_close(&b->target);
    gpur_pass_close(&b->online);
    gpur_memory_free(b->device, b->memory);
}

static gpur_status run_forward(const bare_convolutions *b, const gpur_pass *p)
{
    for (int32_t i = 0; i < b->network.conv_count; i++) {
        const gpur_convolution *const c = &b->network.conv[i];
        const gpur_conv_arrays arrays = {p->activations[i], b->weights + c->weight, p->activations[i + 1],
                                         b->weights + c->bias};
        GPUR_TRY(gpur_conv_run(p->conv[i], b->stream, p->rows, &arrays, b->workspace));
    }
    for (int32_t i = 0; i < b->network.dense_count; i++) {
        const gpur_dense *const d = &b->network.dense[i];
        GPUR_TRY(gpur_gemm_run(p->product[i], b->stream, p->rows, p->activations[d->from] + d->from_column,
                               b->weights + d->weight, p->activations[d->to] + d->to_column, b->weights, b->workspace));
    }
    return GPUR_OK;
}

static gpur_status run_dense_backward(const bare_convolutions *b, int32_t i)
{
    const gpur_dense *const d = &b->network.dense[i];
    const float *const dy = b->backward.gradients[d->to] + d->to_column;
    GPUR_TRY(gpur_gemm_run(b->backward.to_weight[i], b->stream, d->units, dy,
                           b->online.activations[d->from] + d->from_column, b->gradient + d->weight, NULL,
                           b->workspace));
    return gpur_gemm_run(b->backward.to_input[i], b->stream, b->backward.rows, dy, b->weights + d->weight,
                         b->backward.gradients[d->from] + d->from_column, NULL, b->workspace);
}

static gpur_status run_conv_backward(const bare_convolutions *b, int32_t i)
{
    const gpur_convolution *const c = &b->network.conv[i];
    float *const dy = b->backward.gradients[i + 1];
    const gpur_conv_arrays to_weight = {b->online.activations[i], b->gradient + c->weight, dy, NULL};
    GPUR_TRY(gpur_conv_run(b->backward.conv_to_weight[i], b->stream, b->backward.rows, &to_weight, b->workspace));
    if (i == 0)
        return GPUR_OK;
    const gpur_conv_arrays to_input = {b->backward.gradients[i], b->weights + c->weight, dy, NULL};
    return gpur_conv_run(b->backward.conv_to_input[i], b->stream, b->backward.rows, &to_input, b->workspace);
}

static gpur_status run(const bare_convolutions *b)
{
    GPUR_TRY(run_forward(b, &b->online));
    GPUR_TRY(run_forward(b, &b->target));
    for (int32_t i = b->network.dense_count - 1; i >= 0; i--)
        GPUR_TRY(run_dense_backward(b, i));
    for (int32_t i = b->network.conv_count - 1; i >= 0; i--)
        GPUR_TRY(run_conv_backward(b, i));
    return GPUR_OK;
}

static void run_bare(void *context, int64_t repeats)
{
    const bare_convolutions *const b = context;
    for (int64_t i = 0; i < repeats; i++)
        bench_must(run(b), "bare convolutions");
    bench_must(gpur_stream_sync(b->stream), "sync");
}

static void train(void *context, int64_t repeats)
{
    bench_must(gpur_learner_train(context, repeats), "train");
    bench_must(gpur_learner_sync(context), "sync");
}

static void run_case(bench_report *report, gpur_device *device, gpur_replay *replay, const char *preset, int64_t batch)
{
    char name[64], baseline[96];
    gpur_dqn_config config;
    bench_must(gpur_dqn_config_init(&config, sizeof config), "learner config");
    bench_must(gpur_dqn_config_preset(&config, preset), "preset");
    config.batch_size = batch;
    gpur_learner *const learner = bench_learner(replay, preset, batch, 0);
    bare_convolutions bare = {.device = device};
    bench_must(open_bare(&bare, &config), "bare convolutions");
    snprintf(name, sizeof name, "%s train step, batch %lld", preset, (long long)batch);
    snprintf(baseline, sizeof baseline, "its convolutions (%s) and products", gpur_conv_method(bare.online.conv[0]));
    bench_case one = bench_versus(name, "step", 1, train, baseline, run_bare, learner);
    one.variants[1].context = &bare;
    bench_run(report, &one);
    close_bare(&bare);
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
