/* SPDX-License-Identifier: MIT */
/* Dense layers of a network, forward and backward. */
#include "learn/network/pass.h"

#include "base/numbers.h"

#include <string.h>

/* 1: the products of this layer read bfloat16: it follows the convolutions. */
static int reads_bf16(const gpur_pass *pass, const gpur_dense *d)
{
    return gpur_pass_is_bf16(pass, d->from);
}

static const void *weight_of(const gpur_pass *pass, const gpur_dense *d, const float *weights)
{
    return reads_bf16(pass, d) ? gpur_pass_parameter(pass, weights, d->weight) : weights + d->weight;
}

/* The output layers always compute in float32: they are small, their values are compared with each other, and their
 * columns of the activations may lack the alignment that tensor cores need. */
static int32_t math_of(const gpur_dense *d, int32_t math)
{
    return d->bias < 0 ? GPUR_MATH_FP32 : math;
}

/* Y (rows, units) = X (rows, inputs) W^T. */
static gpur_gemm_shape forward_shape(const gpur_pass *pass, const gpur_dense *d)
{
    gpur_gemm_shape shape;
    memset(&shape, 0, sizeof shape);
    shape.m = pass->rows, shape.n = d->units, shape.k = d->inputs;
    shape.lda = pass->pitch[d->from], shape.ldb = d->inputs, shape.ldc = pass->pitch[d->to];
    shape.transpose_b = 1;
    shape.bf16 = reads_bf16(pass, d);
    shape.math = math_of(d, pass->options.math);
    return shape;
}

static gpur_status open_product(gpur_pass *pass, int32_t i)
{
    const gpur_dense *const d = &pass->network->dense[i];
    gpur_gemm_shape shape = forward_shape(pass, d);
    shape.epilogue =
        gpur_pass_epilogue(pass->options.fuse && d->bias >= 0 && !pass->network->norm[d->to].gain, d->activation);
    gpur_status status = gpur_gemm_create(pass->device, &shape, &pass->product[i]);
    if (status == GPUR_UNAVAILABLE && shape.epilogue != GPUR_EPILOGUE_NONE) {
        shape.epilogue = GPUR_EPILOGUE_NONE;
        status = gpur_gemm_create(pass->device, &shape, &pass->product[i]);
    }
    GPUR_TRY(status);
    pass->epilogue[i] = shape.epilogue;
    pass->workspace = gpur_max(pass->workspace, gpur_gemm_workspace_bytes(pass->product[i]));
    return GPUR_OK;
}

gpur_status gpur_pass_open(gpur_pass *pass, gpur_device *device, const gpur_network *network, int64_t rows,
                           int64_t input_pitch, const gpur_pass_options *options)
{
    memset(pass, 0, sizeof *pass);
    pass->device = device;
    pass->network = network;
    pass->options = *options;
    pass->rows = rows;
    for (int32_t s = 0; s < network->activation_count; s++)
        pass->pitch[s] = s == 0                     ? input_pitch
                         : s <= network->conv_count ? network->width[s] /* images, without padding */
                                                    : gpur_activation_pitch(network->width[s]);
    for (int32_t i = 0; i < network->dense_count; i++)
        GPUR_TRY(open_product(pass, i));
    return gpur_conv_pass_open(pass);
}

void gpur_pass_close(gpur_pass *pass)
{
    for (int32_t i = 0; i < GPUR_MAX_DENSE; i++)
        gpur_gemm_destroy(pass->product[i]);
    gpur_conv_pass_close(pass);
}

void gpur_pass_assign(gpur_pass *pass, gpur_arena *arena)
{
    for (int32_t s = 1; s < pass->network->activation_count; s++) {
        pass->activations[s] =
            gpur_arena_alloc(arena, pass->rows * pass->pitch[s] * (gpur_pass_is_bf16(pass, s) ? 2 : 4));
        if (pass->network->norm[s].gain)
            pass->sums[s] = gpur_arena_floats(arena, pass->rows * pass->pitch[s]);
    }
}

gpur_status gpur_pass_add_bias(const gpur_pass *pass, gpur_stream *stream, const gpur_bias_activation_args *args)
{
    const gpur_grid grid = gpur_grid_rows(pass->device, args->batch, 1, args->features * (int64_t)sizeof(float));
    return gpur_launch_bias_activation(stream, grid, args);
}

/* 1: after dense layer i the activations that it writes to are complete: those of all copies are there. */
static int is_last_copy(const gpur_network *network, int32_t i)
{
    return i == network->dense_count - 1 || network->dense[i + 1].to != network->dense[i].to;
}

/* The offset of the biases of the activations that layer d writes to, of all copies. */
static int64_t bias_of(const gpur_dense *d)
{
    return d->bias - d->to_column;
}

static gpur_grid norm_grid(const gpur_pass *pass, int64_t rows, int32_t s)
{
    return gpur_grid_rows(pass->device, rows * pass->network->copies, 8, pass->network->width[s] * 4);
}

/* Normalizes the activations that layer d and its copies write to. */
static gpur_status normalize(const gpur_pass *pass, gpur_stream *stream, int64_t rows, const gpur_dense *d,
                             const float *weights)
{
    const gpur_network *const network = pass->network;
    const gpur_layer_norm_args args = {
        .z = pass->sums[d->to],
        .bias = weights + bias_of(d),
        .gain = weights + network->norm[d->to].gain,
        .offset = weights + network->norm[d->to].offset,
        .y = pass->activations[d->to],
        .batch = rows,
        .pitch = pass->pitch[d->to],
        .units = network->width[d->to] / network->copies,
        .copies = network->copies,
        .activation = d->activation,
    };
    return gpur_launch_layer_norm(stream, norm_grid(pass, rows, d->to), &args);
}

gpur_status gpur_pass_forward(const gpur_pass *pass, gpur_stream *stream, int64_t rows, const float *weights,
                              void *workspace)
{
    GPUR_TRY(gpur_conv_pass_forward(pass, stream, rows, weights, workspace));
    for (int32_t i = 0; i < pass->network->dense_count; i++) {
        const gpur_dense *const d = &pass->network->dense[i];
        const int is_normalized = pass->network->norm[d->to].gain != 0;
        float *const y = (is_normalized ? pass->sums : pass->activations)[d->to] + d->to_column;
        const int32_t fused = pass->epilogue[i] != GPUR_EPILOGUE_NONE;
        const float *const bias = fused ? weights + d->bias : NULL;
        GPUR_TRY(gpur_gemm_run(pass->product[i], stream, rows, pass->activations[d->from] + d->from_column,
                               weight_of(pass, d, weights), y, bias, workspace));
        const gpur_bias_activation_args then = {y,        weights + d->bias,  rows,
                                                d->units, pass->pitch[d->to], d->activation};
        if (is_normalized && is_last_copy(pass->network, i))
            GPUR_TRY(normalize(pass, stream, rows, d, weights));
        else if (!is_normalized && !fused && d->bias >= 0)
            GPUR_TRY(gpur_pass_add_bias(pass, stream, &then));
    }
    return GPUR_OK;
}

/* dW (units, inputs) = dY^T X. */
static gpur_gemm_shape weight_shape(const gpur_backward *backward, const gpur_dense *d)
{
    gpur_gemm_shape shape;
    memset(&shape, 0, sizeof shape);
    shape.m = d->units, shape.n = d->inputs, shape.k = backward->rows;
    shape.lda = backward->pass->pitch[d->to], shape.ldb = backward->pass->pitch[d->from], shape.ldc = d->inputs;
    shape.transpose_a = 1;
    shape.bf16 = reads_bf16(backward->pass, d);
    shape.math = math_of(d, backward->pass->options.math);
    return shape;
}

/* The first column of the layer's input by which the gradient is wanted. */
static int32_t first_input(const gpur_backward *backward, const gpur_dense *d)
{
    return d->from == 0 ? d->inputs - backward->by_input : 0;
}

/* dX (rows, inputs) = dY W. */
static gpur_gemm_shape input_shape(const gpur_backward *backward, const gpur_dense *d)
{
    gpur_gemm_shape shape;
    memset(&shape, 0, sizeof shape);
    shape.m = backward->rows, shape.n = d->inputs - first_input(backward, d), shape.k = d->units;
    shape.lda = backward->pass->pitch[d->to], shape.ldb = d->inputs, shape.ldc = backward->pass->pitch[d->from];
    shape.bf16 = reads_bf16(backward->pass, d);
    shape.math = math_of(d, backward->pass->options.math);
    return shape;
}

static gpur_status create(gpur_backward *backward, const gpur_gemm_shape *shape, gpur_gemm **gemm)
{
    GPUR_TRY(gpur_gemm_create(backward->pass->device, shape, gemm));
    backward->workspace = gpur_max(backward->workspace, gpur_gemm_workspace_bytes(*gemm));
    return GPUR_OK;
}

gpur_status gpur_backward_open(gpur_backward *backward, const gpur_pass *pass, int64_t rows, int32_t by_input)
{
    memset(backward, 0, sizeof *backward);
    backward->pass = pass;
    backward->rows = rows;
    backward->by_input = by_input;
    for (int32_t i = 0; i < pass->network->dense_count; i++) {
        const gpur_dense *const d = &pass->network->dense[i];
        const gpur_gemm_shape to_weight = weight_shape(backward, d), to_input = input_shape(backward, d);
        if (!by_input)
            GPUR_TRY(create(backward, &to_weight, &backward->to_weight[i]));
        if (to_input.n > 0)
            GPUR_TRY(create(backward, &to_input, &backward->to_input[i]));
    }
    return gpur_conv_backward_open(backward);
}

void gpur_backward_close(gpur_backward *backward)
{
    for (int32_t i = 0; i < GPUR_MAX_DENSE; i++) {
        gpur_gemm_destroy(backward->to_weight[i]);
        gpur_gemm_destroy(backward->to_input[i]);
    }
    gpur_conv_backward_close(backward);
}

/* The gradient by the input of a convolution arrives rounded, and is then multiplied in place. */
static void assign_bf16(gpur_backward *backward, int32_t s, gpur_arena *arena)
{
    const int64_t count = backward->rows * backward->pass->pitch[s];
    const int is_in_place = s < backward->pass->network->conv_count;
    backward->rounded[s] = gpur_arena_alloc(arena, count * (int64_t)sizeof(uint16_t));
    backward->gradients[s] = is_in_place ? (float *)(void *)backward->rounded[s] : gpur_arena_floats(arena, count);
}

void gpur_backward_assign(gpur_backward *backward, gpur_arena *arena)
{
    const gpur_pass *const pass = backward->pass;
    int64_t widest = 0; /* of the activations that are normalized */
    for (int32_t s = 1; s < pass->network->activation_count; s++)
        widest = pass->network->norm[s].gain ? gpur_max(widest, pass->pitch[s]) : widest;
    if (widest > 0 && !backward->by_input)
        backward->by_gain = gpur_arena_floats(arena, backward->rows * widest);
    for (int32_t s = backward->by_input ? 0 : 1; s < pass->network->activation_count; s++)
        if (s > 0 && gpur_pass_is_bf16(pass, s - 1))
            assign_bf16(backward, s, arena);
        else
            backward->gradients[s] = gpur_arena_floats(arena, backward->rows * pass->pitch[s]);
    gpur_conv_backward_assign(backward, arena);
}

gpur_grid gpur_layer_backward_grid(const gpur_device *device, const gpur_layer_backward_args *args)
{
    return gpur_grid_rows(device, (args->features + 7) / 8, 1, args->batch * 8 * 4);
}

/* Multiplies the gradient of activations s by the derivative of the activation function, in place, and computes the
 * bias gradient from it, unless that is NULL. The last activations have no activation function (GPUR_LINEAR). */
static gpur_status through_activation(const gpur_backward *backward, gpur_stream *stream, int32_t s, int32_t activation,
                                      float *bias_gradient)
{
    const gpur_pass *const pass = backward->pass;
    gpur_layer_backward_args args;
    if (!bias_gradient && activation == GPUR_LINEAR)
        return GPUR_OK;
    memset(&args, 0, sizeof args);
    args.dy = backward->gradients[s];
    args.rounded = backward->rounded[s];
    args.y = pass->activations[s];
    args.bias_gradient = bias_gradient;
    args.batch = backward->rows;
    args.features = pass->network->width[s];
    args.dy_pitch = args.y_pitch = pass->pitch[s];
    args.activation = activation;
    return gpur_launch_layer_backward(stream, gpur_layer_backward_grid(pass->device, &args), &args);
}

/* Sums over the batch of x (rows, width[s]). */
static gpur_status sum_rows(const gpur_backward *backward, gpur_stream *stream, int32_t s, float *x, float *sums)
{
    const gpur_pass *const pass = backward->pass;
    const gpur_layer_backward_args args = {.dy = x,
                                           .bias_gradient = sums,
                                           .batch = backward->rows,
                                           .features = pass->network->width[s],
                                           .dy_pitch = pass->pitch[s],
                                           .y_pitch = pass->pitch[s],
                                           .activation = GPUR_LINEAR};
    return gpur_launch_layer_backward(stream, gpur_layer_backward_grid(pass->device, &args), &args);
}

/* Back through the normalization of the activations that layer d and its copies write to, whose gradient has gone
 * through the activation. */
static gpur_status through_norm(const gpur_backward *backward, gpur_stream *stream, const gpur_dense *d,
                                const float *weights, float *gradient)
{
    const gpur_pass *const pass = backward->pass;
    const gpur_network *const network = pass->network;
    const gpur_layer_norm_backward_args args = {
        .z = pass->sums[d->to],
        .bias = weights + bias_of(d),
        .gain = weights + network->norm[d->to].gain,
        .d = backward->gradients[d->to],
        .by_gain = backward->by_gain,
        .batch = backward->rows,
        .pitch = pass->pitch[d->to],
        .units = network->width[d->to] / network->copies,
        .copies = network->copies,
    };
    GPUR_TRY(gpur_launch_layer_norm_backward(stream, norm_grid(pass, backward->rows, d->to), &args));
    if (!gradient)
        return GPUR_OK;
    GPUR_TRY(sum_rows(backward, stream, d->to, backward->by_gain, gradient + network->norm[d->to].gain));
    return sum_rows(backward, stream, d->to, backward->gradients[d->to], gradient + bias_of(d));
}

/* NULL of a NULL gradient. */
static float *part_of(float *gradient, int64_t offset)
{
    return gradient ? gradient + offset : NULL;
}

static gpur_status dense_backward(const gpur_backward *backward, const gpur_track *track, const gpur_side *side,
                                  int32_t i, const float *weights, float *gradient)
{
    const gpur_pass *const pass = backward->pass;
    const gpur_dense *const d = &pass->network->dense[i];
    const void *const dy =
        reads_bf16(pass, d) ? gpur_backward_gradient(backward, d->to) : backward->gradients[d->to] + d->to_column;
    const float *const x = pass->activations[d->from] + d->from_column;
    gpur_track beside;
    if (d->bias >= 0 && is_last_copy(pass->network, i)) { /* for all copies at once */
        const gpur_norm norm = pass->network->norm[d->to];
        GPUR_TRY(through_activation(backward, track->stream, d->to, d->activation,
                                    part_of(gradient, norm.gain ? norm.offset : bias_of(d))));
        if (norm.gain)
            GPUR_TRY(through_norm(backward, track->stream, d, weights, gradient));
    }
    if (backward->to_weight[i]) {
        GPUR_TRY(gpur_side_fork(side, track, &beside));
        GPUR_TRY(gpur_gemm_run(backward->to_weight[i], beside.stream, d->units, dy, x, gradient + d->weight, NULL,
                               beside.workspace));
    }
    if (!backward->to_input[i])
        return GPUR_OK;
    const int32_t first = first_input(backward, d); /* 0 if the weights are bfloat16 */
    const float *const weight = (const float *)weight_of(pass, d, weights) + first;
    float *const dx = backward->gradients[d->from] + d->from_column + first;
    return gpur_gemm_run(backward->to_input[i], track->stream, backward->rows, dy, weight, dx, NULL, track->workspace);
}

gpur_status gpur_backward_run(const gpur_backward *backward, const gpur_track *track, const gpur_side *side,
                              const float *weights, float *gradient)
{
    const gpur_network *const network = backward->pass->network;
    GPUR_TRY(through_activation(backward, track->stream, network->activation_count - 1, GPUR_LINEAR,
                                part_of(gradient, network->head_bias)));
    for (int32_t i = network->dense_count - 1; i >= 0; i--)
        GPUR_TRY(dense_backward(backward, track, side, i, weights, gradient));
    GPUR_TRY(gpur_conv_backward_run(backward, track, side, weights, gradient));
    return backward->by_input ? GPUR_OK : gpur_side_join(side, track->stream);
}
