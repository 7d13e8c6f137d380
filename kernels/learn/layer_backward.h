/* SPDX-License-Identifier: MIT */
/* Backward pass through a dense layer's activation and bias: dy *= activation'(y), db = the sum of dy over the batch.
 * Arguments and shapes: gpur_layer_backward_args. */
#pragma once

#include "kernels/args_learn.h"
#include "kernels/lib/bf16.h"
#include "kernels/target/thread.h"

/*
 * A block takes a tile of columns. Its threads form workers, and a worker takes shares of the batch. A CPU's single
 * thread processes a run of columns, so that its inner loop is contiguous; a GPU's thread processes one column,
 * beside its neighbors. The batch always has the same shares, and they are added in the same order, so no launch
 * shape changes a bit.
 */
enum {
    GPUR_BATCH_SHARES = 16,
    GPUR_COLUMN_RUN = GPUR_WARP == 1 ? 128 : 1, /* columns that a thread processes at a time */
    GPUR_COLUMN_TILE = GPUR_WARP == 1 ? 128 : 32,
    GPUR_COLUMN_SHARES = GPUR_BATCH_SHARES * GPUR_COLUMN_TILE,
    GPUR_COLUMN_ROWS = 8, /* rows of a column that a thread loads before it stores */
};

/* activation'(x), computed from y = activation(x). */
GPUR_FN float gpur_activation_derivative(float y, int32_t activation)
{
    if (activation == GPUR_ACTIVATION_RELU)
        return y > 0.0f ? 1.0f : 0.0f;
    return activation == GPUR_ACTIVATION_TANH ? 1.0f - y * y : 1.0f;
}

/* For rows `rows` and `n` columns from column f on: dy *= activation'(y), sum += dy. */
GPUR_FN void gpur_layer_backward_run(const gpur_layer_backward_args *a, gpur_span rows, int64_t f, int64_t n,
                                     float *sum)
{
    for (int64_t i = 0; i < n; i++)
        sum[i] = 0.0f;
    for (int64_t b = rows.first; b < rows.last; b++) {
        float *__restrict__ const dy = (float *)a->dy + b * a->dy_pitch + f;
        const float *__restrict__ const y = (const float *)a->y + b * a->y_pitch + f;
        if (a->activation == GPUR_ACTIVATION_LINEAR) {
            for (int64_t i = 0; i < n; i++)
                sum[i] += dy[i];
        } else {
            for (int64_t i = 0; i < n; i++) {
                dy[i] *= gpur_activation_derivative(y[i], a->activation);
                sum[i] += dy[i];
            }
        }
    }
}

/* activation'(y) of number i of y. */
GPUR_FN float gpur_layer_backward_slope(const gpur_layer_backward_args *a, int64_t i)
{
    return gpur_activation_derivative(gpur_bf16_or_float(a->y, i, a->y_bf16), a->activation);
}

/* The same with bfloat16. */
GPUR_FN void gpur_layer_backward_rounded(const gpur_layer_backward_args *a, gpur_span rows, int64_t f, int64_t n,
                                         float *sum)
{
    for (int64_t i = 0; i < n; i++)
        sum[i] = 0.0f;
    for (int64_t b = rows.first; b < rows.last; b++)
        for (int64_t i = 0; i < n; i++) {
            float dy = gpur_bf16_or_float(a->dy, b * a->dy_pitch + f + i, a->dy_bf16);
            if (a->activation != GPUR_ACTIVATION_LINEAR)
                dy *= gpur_layer_backward_slope(a, b * a->y_pitch + f + i);
            a->rounded[b * a->dy_pitch + f + i] = gpur_bf16_round(dy);
            sum[i] += dy;
        }
}

/* The same for one column, of either type. Several rows are loaded before the first of them is stored. */
GPUR_FN float gpur_layer_backward_column(const gpur_layer_backward_args *a, gpur_span rows, int64_t f)
{
    const int is_linear = a->activation == GPUR_ACTIVATION_LINEAR;
    float sum = 0.0f;
    for (int64_t b = rows.first; b < rows.last; b += GPUR_COLUMN_ROWS) {
        const int64_t first = b * a->dy_pitch + f, n = rows.last - b;
        float dy[GPUR_COLUMN_ROWS], y[GPUR_COLUMN_ROWS];
        for (int r = 0; r < GPUR_COLUMN_ROWS; r++) {
            dy[r] = r < n ? gpur_bf16_or_float(a->dy, first + r * a->dy_pitch, a->dy_bf16) : 0.0f;
            y[r] = r < n && !is_linear ? gpur_bf16_or_float(a->y, (b + r) * a->y_pitch + f, a->y_bf16) : 0.0f;
        }
        for (int r = 0; r < GPUR_COLUMN_ROWS && r < n; r++) {
            if (!is_linear)
                dy[r] *= gpur_activation_derivative(y[r], a->activation);
            if (a->rounded)
                a->rounded[first + r * a->dy_pitch] = gpur_bf16_round(dy[r]);
            else if (!is_linear)
                ((float *)a->dy)[first + r * a->dy_pitch] = dy[r];
            sum += dy[r];
        }
    }
    return sum;
}

/* The same for one share of the batch. A GPU's thread has one column at most. The usual widths of convolutions are
 * constants, so that a CPU's sums stay in registers. */
GPUR_FN void gpur_layer_backward_share(const gpur_layer_backward_args *a, gpur_span rows, int64_t f, int64_t n,
                                       float *sum)
{
    if (GPUR_COLUMN_RUN > 1 && a->rounded)
        gpur_layer_backward_rounded(a, rows, f, n, sum);
    else if (GPUR_COLUMN_RUN > 1 && n == 32)
        gpur_layer_backward_run(a, rows, f, 32, sum);
    else if (GPUR_COLUMN_RUN > 1 && n == 64)
        gpur_layer_backward_run(a, rows, f, 64, sum);
    else if (GPUR_COLUMN_RUN > 1)
        gpur_layer_backward_run(a, rows, f, n, sum);
    else if (n > 0)
        sum[0] = gpur_layer_backward_column(a, rows, f);
}

/* Adds the shares' sums (GPUR_BATCH_SHARES, n), rows `width` apart, in their order. */
GPUR_FN void gpur_layer_backward_total(const float *shares, int64_t width, int64_t n, float *sum, float *total)
{
    for (int64_t i = 0; i < n; i++)
        sum[i] = 0.0f;
    for (int64_t share = 0; share < GPUR_BATCH_SHARES; share++)
        for (int64_t i = 0; i < n; i++)
            sum[i] += shares[share * width + i];
    for (int64_t i = 0; i < n; i++)
        total[i] = sum[i];
}

/* Processes these tiles of columns, by the whole block. */
GPUR_FN void gpur_columns_backward(gpur_thread at, const gpur_layer_backward_args *a, gpur_span tiles)
{
    GPUR_SHARED(float, shares, GPUR_COLUMN_SHARES);
    float sum[GPUR_COLUMN_RUN] = {0};
    const int64_t lanes = at.threads * GPUR_COLUMN_RUN;
    const int64_t width = lanes < GPUR_COLUMN_TILE ? lanes : GPUR_COLUMN_TILE;
    const int64_t workers = lanes / width, worker = at.thread * GPUR_COLUMN_RUN / width;
    const int64_t lane = at.thread * GPUR_COLUMN_RUN % width;
    for (int64_t tile = tiles.first; tile < tiles.last; tile += tiles.step) {
        const int64_t f = tile * width + lane, left = a->features - f;
        const int64_t n = GPUR_COLUMN_RUN == 1     ? left > 0
                          : left < 0               ? 0
                          : left < GPUR_COLUMN_RUN ? left
                                                   : GPUR_COLUMN_RUN;
        for (int64_t share = worker; share < GPUR_BATCH_SHARES && worker < workers; share += workers) {
            const gpur_span rows = gpur_share_of(a->batch, share, GPUR_BATCH_SHARES);
            gpur_layer_backward_share(a, rows, f, n, shares + share * width + lane);
        }
        gpur_barrier(at);
        if (worker == 0 && a->bias_gradient)
            gpur_layer_backward_total(shares + lane, width, n, sum, a->bias_gradient + f);
        gpur_barrier(at);
    }
}

/* How many tiles of columns there are. */
GPUR_FN int64_t gpur_column_tiles(gpur_thread at, int64_t features)
{
    const int64_t lanes = at.threads * GPUR_COLUMN_RUN, width = lanes < GPUR_COLUMN_TILE ? lanes : GPUR_COLUMN_TILE;
    return (features + width - 1) / width;
}

GPUR_KERNEL_OF(layer_backward, 512)
{
    gpur_columns_backward(at, a, gpur_block_rows(at, gpur_column_tiles(at, a->features)));
}
