/* SPDX-License-Identifier: MIT */
/* Backward pass through a convolution's activation and bias: dy *= activation'(y), in place, and sums of dy over runs
 * of GPUR_CONV_BIAS_ROWS rows, in a fixed order. Arguments and shapes: gpur_conv_bias_backward_args. */
#pragma once

#include "kernels/args_conv.h"
#include "kernels/learn/layer_backward.h"

/* On a GPU neighboring threads read the usual 32 columns of a row, and a share is 4 rows, which a thread loads at a
 * time. */
enum {
    GPUR_CONV_BIAS_TILE = GPUR_WARP == 1 ? 128 : 32,
    GPUR_CONV_BIAS_SHARES = GPUR_WARP == 1 ? 16 : 32,
};

/* Each run of rows is a batch of its own for layer_backward.h. A block takes one tile of columns of one run at a
 * time. `columns` is how many columns a thread processes at a time, a constant. */
GPUR_FN void gpur_conv_bias_runs(gpur_thread at, const gpur_conv_bias_backward_args *a, int32_t columns)
{
    const gpur_columns c = gpur_columns_of(at, columns, GPUR_CONV_BIAS_TILE, GPUR_CONV_BIAS_SHARES);
    const int64_t runs = (a->rows + GPUR_CONV_BIAS_ROWS - 1) / GPUR_CONV_BIAS_ROWS;
    const int64_t tiles = gpur_column_tiles(c, a->features);
    const gpur_span work = gpur_block_rows(at, runs * tiles);
    for (int64_t i = work.first; i < work.last; i += work.step) {
        gpur_layer_backward_args run_args;
        const int64_t run = i / tiles;
        gpur_span tile;
        tile.first = i - run * tiles, tile.last = tile.first + 1, tile.step = 1;
        const int64_t first = run * GPUR_CONV_BIAS_ROWS, left = a->rows - first;
        run_args.dy = (char *)a->dy + first * a->features * (a->dy_bf16 ? 2 : 4);
        run_args.y = (const char *)a->y + first * a->features * (a->y_bf16 ? 2 : 4);
        run_args.rounded = a->rounded ? a->rounded + first * a->features : NULL;
        run_args.bias_gradient = a->partial + run * a->features;
        run_args.batch = left < GPUR_CONV_BIAS_ROWS ? left : GPUR_CONV_BIAS_ROWS;
        run_args.features = run_args.dy_pitch = run_args.y_pitch = a->features;
        run_args.activation = a->activation;
        run_args.dy_bf16 = a->dy_bf16, run_args.y_bf16 = a->y_bf16;
        gpur_columns_backward(at, &run_args, c, tile);
    }
}

GPUR_KERNEL_OF(conv_bias_backward, 512)
{
    if (GPUR_WARP == 1 || gpur_columns_in_quads(a->dy, a->y, a->rounded, a->features))
        gpur_conv_bias_runs(at, a, GPUR_COLUMN_RUN);
    else
        gpur_conv_bias_runs(at, a, 1);
}
