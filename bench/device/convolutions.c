/* SPDX-License-Identifier: MIT */
#include "bench/device/convolutions.h"

#include "learn/network/pass.h"

#include <stdlib.h>
#include <string.h>

struct bare_convolutions {
    gpur_device *device;
    gpur_stream *stream;
    gpur_network network;
    gpur_pass online, target;
    gpur_backward backward;
    float *weights, *gradient; /* (P) */
    void *memory, *workspace;
    gpur_status status; /* of the first run that failed */
};

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static void place(bare_convolutions *b, gpur_arena *arena)
{
    const int64_t passes = larger(gpur_pass_workspace(&b->online), gpur_pass_workspace(&b->target));
    b->weights = gpur_arena_floats(arena, b->network.params.count);
    b->gradient = gpur_arena_floats(arena, b->network.params.count);
    b->online.activations[0] = gpur_arena_floats(arena, b->online.rows * b->online.pitch[0]);
    b->target.activations[0] = gpur_arena_floats(arena, b->target.rows * b->target.pitch[0]);
    gpur_pass_assign(&b->online, arena);
    gpur_pass_assign(&b->target, arena);
    gpur_backward_assign(&b->backward, arena);
    b->workspace = gpur_arena_alloc(arena, larger(passes, gpur_backward_workspace(&b->backward)));
}

static gpur_status open_parts(bare_convolutions *b, const gpur_learner_config *config)
{
    const gpur_input_shape scene = {84 * 84 * 4, 84, 84, 4};
    const gpur_pass_options options = {.math = config->math, .fuse = 1, .deterministic = config->deterministic};
    const int64_t batch = config->batch_size, online = config->double_dqn ? 2 * batch : batch;
    gpur_arena arena = {NULL, 0};
    GPUR_TRY(gpur_stream_create(b->device, &b->stream));
    GPUR_TRY(gpur_network_build(&b->network, &config->network, &scene));
    const int64_t pitch = gpur_input_pitch(&b->network);
    GPUR_TRY(gpur_pass_open(&b->online, b->device, &b->network, online, pitch, &options));
    GPUR_TRY(gpur_pass_open(&b->target, b->device, &b->network, batch, pitch, &options));
    GPUR_TRY(gpur_backward_open(&b->backward, &b->online, batch));
    place(b, &arena);
    GPUR_TRY(gpur_memory_alloc(b->device, arena.used, "bare convolutions", &b->memory));
    arena.base = b->memory, arena.used = 0;
    place(b, &arena);
    return GPUR_OK;
}

bare_convolutions *bare_convolutions_open(gpur_device *device, const gpur_learner_config *config)
{
    bare_convolutions *const b = calloc(1, sizeof *b);
    if (!b)
        return NULL;
    b->device = device;
    if (open_parts(b, config) == GPUR_OK)
        return b;
    bare_convolutions_close(b);
    return NULL;
}

void bare_convolutions_close(bare_convolutions *b)
{
    if (!b)
        return;
    gpur_stream_destroy(b->stream);
    gpur_backward_close(&b->backward);
    gpur_pass_close(&b->target);
    gpur_pass_close(&b->online);
    gpur_memory_free(b->device, b->memory);
    free(b);
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

void bare_convolutions_run(void *context, int64_t repeats)
{
    bare_convolutions *const b = context;
    for (int64_t i = 0; i < repeats && b->status == GPUR_OK; i++)
        b->status = run(b);
    if (b->status == GPUR_OK)
        b->status = gpur_stream_sync(b->stream);
}

const char *bare_convolutions_library(const bare_convolutions *b)
{
    return gpur_conv_method(b->online.conv[0]);
}
