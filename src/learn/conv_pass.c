/* SPDX-License-Identifier: MIT */
#include "learn/conv_pass.h"

#include <string.h>

gpur_conv_shape gpur_conv_shape_of(const gpur_pass *pass, int32_t i, int32_t direction, int64_t rows)
{
    const gpur_convolution *const c = &pass->network->conv[i];
    gpur_conv_shape shape;
    memset(&shape, 0, sizeof shape);
    shape.pass = direction;
    shape.images = rows;
    shape.height = c->height, shape.width = c->width, shape.channels = c->channels, shape.filters = c->filters;
    shape.kernel = c->kernel, shape.stride = c->stride, shape.padding = c->padding;
    shape.math = pass->options.math;
    shape.x_bf16 = i == 0 && pass->options.input_bf16;
    shape.deterministic = pass->options.deterministic;
    shape.by_patches = pass->options.by_patches;
    return shape;
}

static int32_t wanted_epilogue(const gpur_pass *pass, int32_t i)
{
    const int32_t activation = pass->network->conv[i].activation;
    if (!pass->options.fuse || activation == GPUR_TANH)
        return GPUR_EPILOGUE_NONE;
    return activation == GPUR_RELU ? GPUR_EPILOGUE_BIAS_RELU : GPUR_EPILOGUE_BIAS;
}

static gpur_status open_conv(gpur_pass *pass, int32_t i)
{
    gpur_conv_shape shape = gpur_conv_shape_of(pass, i, GPUR_CONV_FORWARD, pass->rows);
    shape.epilogue = wanted_epilogue(pass, i);
    gpur_status status = gpur_conv_create(pass->device, &shape, &pass->conv[i]);
    if (status == GPUR_UNAVAILABLE && shape.epilogue != GPUR_EPILOGUE_NONE) {
        shape.epilogue = GPUR_EPILOGUE_NONE;
        status = gpur_conv_create(pass->device, &shape, &pass->conv[i]);
    }
    pass->conv_epilogue[i] = shape.epilogue;
    return status;
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

int64_t gpur_conv_pass_workspace(const gpur_pass *pass)
{
    int64_t most = 0;
    for (int32_t i = 0; i < pass->network->conv_count; i++) {
        const int64_t bytes = gpur_conv_workspace_bytes(pass->conv[i]);
        most = bytes > most ? bytes : most;
    }
    return most;
}

/* Pixels are rows, filters columns. */
static gpur_status add_bias(const gpur_pass *pass, gpur_stream *stream, int64_t rows, int32_t i, const float *bias)
{
    const gpur_convolution *const c = &pass->network->conv[i];
    gpur_bias_activation_args args;
    args.y = pass->sheet[i + 1];
    args.bias = bias;
    args.batch = rows * c->out_height * c->out_width;
    args.features = args.pitch = c->filters;
    args.activation = c->activation;
    const gpur_grid grid = gpur_grid_rows(pass->device, args.batch, 1, args.features * (int64_t)sizeof(float));
    return gpur_launch_bias_activation(stream, grid, &args);
}

gpur_status gpur_conv_pass_forward(const gpur_pass *pass, gpur_stream *stream, int64_t rows, const float *weights,
                                   void *workspace)
{
    for (int32_t i = 0; i < pass->network->conv_count; i++) {
        const gpur_convolution *const c = &pass->network->conv[i];
        const int fused = pass->conv_epilogue[i] != GPUR_EPILOGUE_NONE;
        const gpur_conv_arrays arrays = {pass->sheet[i], (float *)(uintptr_t)(weights + c->weight), pass->sheet[i + 1],
                                         fused ? weights + c->bias : NULL};
        GPUR_TRY(gpur_conv_run(pass->conv[i], stream, rows, &arrays, workspace));
        if (!fused)
            GPUR_TRY(add_bias(pass, stream, rows, i, weights + c->bias));
    }
    return GPUR_OK;
}
