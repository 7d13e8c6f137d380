/* SPDX-License-Identifier: MIT */
/* Convolutions of a network, forward and backward. */
#include "base/numbers.h"
#include "gpureplay/math.h"
#include "learn/network/pass.h"

#include <string.h>

/* A network that does not suit bfloat16 has the next best arithmetic. */
static int32_t math_of(const gpur_pass *pass)
{
    const int32_t math = pass->options.math;
    return math == GPUR_MATH_BF16 && !pass->network->params.bf16 ? GPUR_MATH_TF32 : math;
}

/* The shape of convolution i for a plan in `direction` (GPUR_CONV_*); all plans of a convolution share it. */
static gpur_conv_shape conv_shape_of(const gpur_pass *pass, int32_t i, int32_t direction, int64_t rows)
{
    const gpur_convolution *const c = &pass->network->conv[i];
    gpur_conv_shape shape;
    memset(&shape, 0, sizeof shape);
    shape.pass = direction;
    shape.images = rows;
    shape.height = c->height, shape.width = c->width, shape.channels = c->channels, shape.filters = c->filters;
    shape.kernel = c->kernel, shape.stride = c->stride;
    shape.top = c->top, shape.left = c->left, shape.bottom = c->bottom, shape.right = c->right;
    shape.math = math_of(pass);
    shape.deterministic = gpur_device_get_traits(pass->device)->is_deterministic;
    shape.by_im2col = pass->options.by_im2col;
    return shape;
}

/* In bfloat16 every device has the epilogues, and the kernel for those without is of float32. */
static gpur_status open_conv(gpur_pass *pass, int32_t i)
{
    gpur_conv_shape shape = conv_shape_of(pass, i, GPUR_CONV_FORWARD, pass->rows);
    shape.epilogue =
        gpur_pass_epilogue(pass->options.fuse || pass->network->params.bf16, pass->network->conv[i].activation);
    gpur_status status = gpur_conv_create(pass->device, &shape, &pass->conv[i]);
    if (status == GPUR_UNAVAILABLE && shape.epilogue != GPUR_EPILOGUE_NONE) {
        shape.epilogue = GPUR_EPILOGUE_NONE;
        status = gpur_conv_create(pass->device, &shape, &pass->conv[i]);
    }
    GPUR_TRY(status);
    pass->conv_epilogue[i] = shape.epilogue;
    pass->workspace = gpur_max(pass->workspace, gpur_conv_workspace_bytes(pass->conv[i]));
    return GPUR_OK;
}

gpur_status gpur_conv_pass_open(gpur_pass *pass)
{
    for (int32_t i = 0; i < pass->network->conv_count; i++)
        GPUR_TRY(open_conv(pass, i));
    return GPUR_OK;
}

void gpur_conv_pass_close(gpur_pass *pass)
{
    for (int32_t i = 0; i < GPUR_MAX_LAYERS; i++)
        gpur_conv_destroy(pass->conv[i]);
}

gpur_status gpur_conv_pass_forward(const gpur_pass *pass, gpur_stream *stream, int64_t rows, const float *weights,
                                   void *workspace)
{
    for (int32_t i = 0; i < pass->network->conv_count; i++) {
        const gpur_convolution *const c = &pass->network->conv[i];
        const int fused = pass->conv_epilogue[i] != GPUR_EPILOGUE_NONE;
        const gpur_conv_arrays arrays = {pass->activations[i], gpur_pass_parameter(pass, weights, c->weight),
                                         pass->activations[i + 1],
                                         fused ? gpur_pass_parameter(pass, weights, c->bias) : NULL};
        GPUR_TRY(gpur_conv_run(pass->conv[i], stream, rows, &arrays, workspace));
        const gpur_bias_activation_args then = {
            pass->activations[i + 1],
            weights + c->bias,
            rows * c->out_height * c->out_width,
            c->filters,
            c->filters,
            c->activation}; /* to the kernel, pixels are rows and filters are columns */
        if (!fused)
            GPUR_TRY(gpur_pass_add_bias(pass, stream, &then));
    }
    return GPUR_OK;
}

static gpur_status open_backward(gpur_backward *backward, int32_t i, int32_t direction, gpur_conv **conv)
{
    const gpur_conv_shape shape = conv_shape_of(backward->pass, i, direction, backward->rows);
    GPUR_TRY(gpur_conv_create(backward->pass->device, &shape, conv));
    backward->workspace = gpur_max(backward->workspace, gpur_conv_workspace_bytes(*conv));
    return GPUR_OK;
}

gpur_status gpur_conv_backward_open(gpur_backward *backward)
{
    for (int32_t i = 0; i < backward->pass->network->conv_count; i++) {
        GPUR_TRY(open_backward(backward, i, GPUR_CONV_TO_WEIGHT, &backward->conv_to_weight[i]));
        if (i > 0)
            GPUR_TRY(open_backward(backward, i, GPUR_CONV_TO_INPUT, &backward->conv_to_input[i]));
    }
    return GPUR_OK;
}

void gpur_conv_backward_close(gpur_backward *backward)
{
    for (int32_t i = 0; i < GPUR_MAX_LAYERS; i++) {
        gpur_conv_destroy(backward->conv_to_weight[i]);
        gpur_conv_destroy(backward->conv_to_input[i]);
    }
}

static int64_t pixels_of(const gpur_backward *backward, int32_t i)
{
    const gpur_convolution *const c = &backward->pass->network->conv[i];
    return backward->rows * c->out_height * c->out_width;
}

static int64_t runs_of(const gpur_backward *backward, int32_t i)
{
    return (pixels_of(backward, i) + GPUR_CONV_BIAS_ROWS - 1) / GPUR_CONV_BIAS_ROWS;
}

void gpur_conv_backward_assign(gpur_backward *backward, gpur_arena *arena)
{
    int64_t largest = 0;
    for (int32_t i = 0; i < backward->pass->network->conv_count; i++) {
        const int64_t count = runs_of(backward, i) * backward->pass->network->conv[i].filters;
        largest = count > largest ? count : largest;
    }
    backward->partial = gpur_arena_floats(arena, largest);
}

/* Adds up the partial sums of all runs of pixels, by the kernel for dense layers: each run is a row of a batch, and the
 * activation is linear. */
static gpur_status sum_runs(const gpur_backward *backward, gpur_stream *stream, int32_t i, float *bias_gradient)
{
    gpur_layer_backward_args args;
    memset(&args, 0, sizeof args);
    args.dy = backward->partial;
    args.bias_gradient = bias_gradient;
    args.batch = runs_of(backward, i);
    args.features = args.dy_pitch = args.y_pitch = backward->pass->network->conv[i].filters;
    args.activation = GPUR_LINEAR;
    return gpur_launch_layer_backward(stream, gpur_layer_backward_grid(backward->pass->device, &args), &args);
}

/* Multiplies the gradient of convolution i's output by the derivative of the activation function, in place, and
 * computes the bias gradient from it. */
static gpur_status through_activation(const gpur_backward *backward, gpur_stream *stream, int32_t i,
                                      float *bias_gradient)
{
    const gpur_convolution *const c = &backward->pass->network->conv[i];
    gpur_conv_bias_backward_args args;
    memset(&args, 0, sizeof args);
    args.dy = backward->gradients[i + 1];
    args.y = backward->pass->activations[i + 1];
    args.rounded = backward->rounded[i + 1];
    args.dy_bf16 = gpur_pass_is_bf16(backward->pass, i + 1) && i + 1 < backward->pass->network->conv_count;
    args.y_bf16 = gpur_pass_is_bf16(backward->pass, i + 1);
    args.partial = backward->partial;
    args.rows = pixels_of(backward, i);
    args.features = c->filters;
    args.activation = c->activation;
    const int64_t tiles = runs_of(backward, i) * ((args.features + 31) / 32);
    const int64_t bytes = GPUR_CONV_BIAS_ROWS * 32 * 2 * (int64_t)sizeof(float);
    const gpur_grid grid = gpur_grid_rows(backward->pass->device, tiles, 1, bytes);
    GPUR_TRY(gpur_launch_conv_bias_backward(stream, gpur_grid_of_threads(grid, 256), &args));
    return sum_runs(backward, stream, i, bias_gradient);
}

static gpur_status conv_backward(const gpur_backward *backward, const gpur_track *track, const gpur_side *side,
                                 int32_t i, const float *weights, float *gradient)
{
    const gpur_convolution *const c = &backward->pass->network->conv[i];
    void *const dy = gpur_backward_gradient(backward, i + 1);
    const gpur_conv_arrays to_weight = {backward->pass->activations[i], gradient + c->weight, dy, NULL};
    gpur_track beside;
    GPUR_TRY(through_activation(backward, track->stream, i, gradient + c->bias));
    GPUR_TRY(gpur_side_fork(side, track, &beside));
    GPUR_TRY(gpur_conv_run(backward->conv_to_weight[i], beside.stream, backward->rows, &to_weight, beside.workspace));
    if (!backward->conv_to_input[i])
        return GPUR_OK;
    const gpur_conv_arrays to_input = {backward->gradients[i], gpur_pass_parameter(backward->pass, weights, c->weight),
                                       dy, NULL};
    return gpur_conv_run(backward->conv_to_input[i], track->stream, backward->rows, &to_input, track->workspace);
}

gpur_status gpur_conv_backward_run(const gpur_backward *backward, const gpur_track *track, const gpur_side *side,
                                   const float *weights, float *gradient)
{
    for (int32_t i = backward->pass->network->conv_count - 1; i >= 0; i--)
        GPUR_TRY(conv_backward(backward, track, side, i, weights, gradient));
    return GPUR_OK;
}
