/* SPDX-License-Identifier: MIT */
#include "learn/conv_pass.h"
#include "learn/pass.h"

#include <string.h>

/* Y (rows, units) = X (rows, inputs) W^T. */
static gpur_gemm_shape forward_shape(const gpur_pass *pass, const gpur_dense *d)
{
    gpur_gemm_shape shape;
    memset(&shape, 0, sizeof shape);
    shape.m = pass->rows, shape.n = d->units, shape.k = d->inputs;
    shape.lda = pass->pitch[d->from], shape.ldb = d->inputs, shape.ldc = pass->pitch[d->to];
    shape.transpose_b = 1;
    gpur_dense_arithmetic(d, &pass->options, &shape);
    return shape;
}

static int32_t wanted_epilogue(const gpur_dense *d, int32_t fuse)
{
    if (!fuse || d->bias < 0 || d->activation == GPUR_TANH)
        return GPUR_EPILOGUE_NONE;
    return d->activation == GPUR_RELU ? GPUR_EPILOGUE_BIAS_RELU : GPUR_EPILOGUE_BIAS;
}

static gpur_status open_product(gpur_pass *pass, int32_t i)
{
    gpur_gemm_shape shape = forward_shape(pass, &pass->network->dense[i]);
    shape.epilogue = wanted_epilogue(&pass->network->dense[i], pass->options.fuse);
    gpur_status status = gpur_gemm_create(pass->device, &shape, &pass->product[i]);
    if (status == GPUR_UNAVAILABLE && shape.epilogue != GPUR_EPILOGUE_NONE) {
        shape.epilogue = GPUR_EPILOGUE_NONE;
        status = gpur_gemm_create(pass->device, &shape, &pass->product[i]);
    }
    pass->epilogue[i] = shape.epilogue;
    return status;
}

gpur_status gpur_pass_open(gpur_pass *pass, gpur_device *device, const gpur_network *network, int64_t rows,
                           int64_t input_pitch, const gpur_pass_options *options)
{
    memset(pass, 0, sizeof *pass);
    pass->device = device;
    pass->network = network;
    pass->options = *options;
    pass->rows = rows;
    for (int32_t s = 0; s < network->sheet_count; s++)
        pass->pitch[s] = s == 0                     ? input_pitch
                         : s <= network->conv_count ? network->width[s] /* images, with nothing between them */
                                                    : gpur_sheet_pitch(network->width[s]);
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

void gpur_pass_place(gpur_pass *pass, gpur_arena *arena)
{
    for (int32_t s = 1; s < pass->network->sheet_count; s++)
        pass->sheet[s] = gpur_arena_floats(arena, pass->rows * pass->pitch[s]);
}

int64_t gpur_pass_workspace(const gpur_pass *pass)
{
    int64_t most = gpur_conv_pass_workspace(pass);
    for (int32_t i = 0; i < pass->network->dense_count; i++) {
        const int64_t bytes = gpur_gemm_workspace_bytes(pass->product[i]);
        most = bytes > most ? bytes : most;
    }
    return most;
}

static gpur_status add_bias(const gpur_pass *pass, gpur_stream *stream, int64_t rows, const gpur_dense *d, float *y,
                            const float *bias)
{
    gpur_bias_activation_args args;
    args.y = y;
    args.bias = bias;
    args.batch = rows;
    args.features = d->units;
    args.pitch = pass->pitch[d->to];
    args.activation = d->activation;
    const gpur_grid grid = gpur_grid_rows(pass->device, rows, 1, (int64_t)d->units * (int64_t)sizeof(float));
    return gpur_launch_bias_activation(stream, grid, &args);
}

gpur_status gpur_pass_forward(const gpur_pass *pass, gpur_stream *stream, int64_t rows, const float *weights,
                              void *workspace)
{
    GPUR_TRY(gpur_conv_pass_forward(pass, stream, rows, weights, workspace));
    for (int32_t i = 0; i < pass->network->dense_count; i++) {
        const gpur_dense *const d = &pass->network->dense[i];
        float *const y = pass->sheet[d->to] + d->to_column;
        const int32_t fused = pass->epilogue[i] != GPUR_EPILOGUE_NONE;
        const float *const bias = fused ? weights + d->bias : NULL;
        GPUR_TRY(gpur_gemm_run(pass->product[i], stream, rows, pass->sheet[d->from] + d->from_column,
                               weights + d->weight, y, bias, workspace));
        if (!fused && d->bias >= 0)
            GPUR_TRY(add_bias(pass, stream, rows, d, y, weights + d->bias));
    }
    return GPUR_OK;
}
