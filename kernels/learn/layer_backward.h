/* SPDX-License-Identifier: MIT */
/* Backward pass through a dense layer's activation and bias: dy *= activation'(y), db = the sum of dy over the batch.
 * Arguments and shapes: gpur_layer_backward_args. */
#pragma once

#include "kernels/args_learn.h"
#include "kernels/lib/bf16.h"
#include "kernels/target/thread.h"

/*
 * A block takes a tile of columns. Its threads form workers, and a worker takes shares of the batch. A CPU's single
 * thread processes a run of columns, so that its inner loop is contiguous; a GPU's thread processes four columns, or
 * one if they are not aligned, and loads several rows at a time, since it mostly waits for memory. A batch has the same
 * shares in every launch shape, and they are added in the same order, so none changes a bit.
 */
enum {
    GPUR_BATCH_SHARES = GPUR_WARP == 1 ? 16 : 256,
    GPUR_COLUMN_RUN = GPUR_WARP == 1 ? 128 : 4, /* columns that a thread processes at a time, at most */
    GPUR_COLUMN_TILE = GPUR_WARP == 1 ? 128 : 8,
    GPUR_COLUMN_SHARES = GPUR_BATCH_SHARES * GPUR_COLUMN_TILE,
    GPUR_QUAD_ROWS = 4,     /* rows of four columns that a thread loads before it stores */
    GPUR_COLUMN_ROWS = 8,   /* rows of one column, likewise */
    GPUR_SHARES_ADDED = 32, /* sums of shares that a thread adds up, at most */
};

/* activation'(x), computed from y = activation(x). */
GPUR_FN float gpur_activation_derivative(float y, int32_t activation)
{
    if (activation == GPUR_RELU)
        return y > 0.0f ? 1.0f : 0.0f;
    return activation == GPUR_TANH ? 1.0f - y * y : 1.0f;
}

/* For rows `rows` and `n` columns from column f on: dy *= activation'(y), sum += dy. */
GPUR_FN void gpur_layer_backward_run(const gpur_layer_backward_args *a, gpur_span rows, int64_t f, int64_t n,
                                     float *sum)
{
    for (int64_t i = 0; i < n; i++)
        sum[i] = 0.0f;
    for (int64_t b = rows.first; b < rows.last; b++) {
        float *__restrict__ const dy = (float *)a->dy + b * a->dy_pitch + f;
        if (a->activation == GPUR_LINEAR) { /* without y */
            for (int64_t i = 0; i < n; i++)
                sum[i] += dy[i];
        } else {
            const float *__restrict__ const y = (const float *)a->y + b * a->y_pitch + f;
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
            if (a->activation != GPUR_LINEAR)
                dy *= gpur_layer_backward_slope(a, b * a->y_pitch + f + i);
            a->rounded[b * a->dy_pitch + f + i] = gpur_bf16_round(dy);
            sum[i] += dy;
        }
}

/* The same for one column. The types are arguments so that they are constants: branches between the loads would make
 * each wait for the one before. For the same reason rows that do not exist are loaded as the first one. */
GPUR_FN float gpur_layer_backward_column(const gpur_layer_backward_args *a, gpur_span rows, int64_t f, int dy_bf16,
                                         int y_bf16)
{
    const int is_linear = a->activation == GPUR_LINEAR;
    const int32_t last = (int32_t)rows.last, step = (int32_t)rows.step; /* 64 bits would need more registers */
    float sum = 0.0f;
    for (int32_t b = (int32_t)rows.first; b < last; b += GPUR_COLUMN_ROWS * step) {
        float dy[GPUR_COLUMN_ROWS], y[GPUR_COLUMN_ROWS];
        for (int r = 0; r < GPUR_COLUMN_ROWS; r++) {
            const int64_t row = b + r * step < last ? b + r * step : b;
            dy[r] = gpur_bf16_or_float(a->dy, row * a->dy_pitch + f, dy_bf16);
            y[r] = is_linear ? 0.0f : gpur_bf16_or_float(a->y, row * a->y_pitch + f, y_bf16);
        }
        for (int r = 0; r < GPUR_COLUMN_ROWS && b + r * step < last; r++) {
            const int64_t i = (b + r * step) * a->dy_pitch + f;
            if (!is_linear)
                dy[r] *= gpur_activation_derivative(y[r], a->activation);
            if (a->rounded)
                a->rounded[i] = gpur_bf16_round(dy[r]);
            else if (!is_linear)
                ((float *)a->dy)[i] = dy[r];
            sum += dy[r];
        }
    }
    return sum;
}

/* Four float32 numbers, or four of bfloat16, as they are in memory. */
typedef struct gpur_four_floats {
    uint32_t v[4];
} __attribute__((aligned(16), may_alias)) gpur_four_floats;
typedef struct gpur_four_halves {
    uint64_t v;
} __attribute__((aligned(8), may_alias)) gpur_four_halves;

/* Loads four numbers from number i of x on; bfloat16 numbers fill the first two words. */
GPUR_FN gpur_four_floats gpur_layer_load_quad(const void *x, int64_t i, int bf16)
{
    gpur_four_floats quad = {{0, 0, 0, 0}};
    if (!bf16)
        return *(const gpur_four_floats *)(const void *)((const float *)x + i);
    const gpur_four_halves two = *(const gpur_four_halves *)(const void *)((const uint16_t *)x + i);
    quad.v[0] = (uint32_t)two.v, quad.v[1] = (uint32_t)(two.v >> 32);
    return quad;
}

/* Number i of four numbers. */
GPUR_FN float gpur_quad_number(gpur_four_floats quad, int i, int bf16)
{
    const uint32_t bits = !bf16 ? quad.v[i] : i % 2 ? quad.v[i / 2] & 0xffff0000u : quad.v[i / 2] << 16;
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* The bits of two numbers as bfloat16. */
GPUR_FN uint32_t gpur_rounded_pair(float first, float second)
{
    return gpur_bf16_round(first) | (uint32_t)gpur_bf16_round(second) << 16;
}

/* Stores the four numbers dy of a row from number i on. */
GPUR_FN void gpur_layer_store_quad(const gpur_layer_backward_args *a, int64_t i, const float *dy, int dy_bf16)
{
    gpur_four_floats quad;
    gpur_four_halves two;
    if (a->rounded || dy_bf16) {
        two.v = gpur_rounded_pair(dy[0], dy[1]) | (uint64_t)gpur_rounded_pair(dy[2], dy[3]) << 32;
        *(gpur_four_halves *)(void *)(a->rounded + i) = two;
    } else {
        memcpy(quad.v, dy, sizeof quad.v);
        *(gpur_four_floats *)(void *)((float *)a->dy + i) = quad;
    }
}

/* Multiplies the four numbers dy of a row by activation'(y), which is not linear. */
GPUR_FN void gpur_quad_backward(float *dy, gpur_four_floats y, int y_bf16, int is_tanh)
{
    for (int k = 0; k < 4; k++) {
        const float x = gpur_quad_number(y, k, y_bf16), step = x > 0.0f ? 1.0f : 0.0f, slope = 1.0f - x * x;
        dy[k] *= is_tanh ? slope : step;
    }
}

/* The same for four columns. */
GPUR_FN void gpur_layer_backward_quads(const gpur_layer_backward_args *a, gpur_span rows, int64_t f, int dy_bf16,
                                       int y_bf16, float *sum)
{
    const int is_linear = a->activation == GPUR_LINEAR, is_tanh = a->activation == GPUR_TANH;
    const int32_t last = (int32_t)rows.last, step = (int32_t)rows.step; /* 64 bits would need more registers */
    float total[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    for (int32_t b = (int32_t)rows.first; b < last; b += GPUR_QUAD_ROWS * step) {
        gpur_four_floats dy[GPUR_QUAD_ROWS], y[GPUR_QUAD_ROWS];
        for (int r = 0; r < GPUR_QUAD_ROWS; r++) {
            const int64_t row = b + r * step < last ? b + r * step : b;
            dy[r] = gpur_layer_load_quad(a->dy, row * a->dy_pitch + f, dy_bf16);
            if (!is_linear)
                y[r] = gpur_layer_load_quad(a->y, row * a->y_pitch + f, y_bf16);
        }
        for (int r = 0; r < GPUR_QUAD_ROWS && b + r * step < last; r++) {
            float x[4];
            for (int k = 0; k < 4; k++)
                x[k] = gpur_quad_number(dy[r], k, dy_bf16);
            if (!is_linear)
                gpur_quad_backward(x, y[r], y_bf16, is_tanh);
            for (int k = 0; k < 4; k++)
                total[k] += x[k];
            if (a->rounded || !is_linear)
                gpur_layer_store_quad(a, (b + r * step) * a->dy_pitch + f, x, dy_bf16);
        }
    }
    for (int k = 0; k < 4; k++)
        sum[k] = total[k];
}

/* The same for one share of the batch. A GPU's thread has one column or four. The usual widths of convolutions are
 * constants, so that a CPU's sums stay in registers. */
GPUR_FN void gpur_layer_backward_share(const gpur_layer_backward_args *a, gpur_span rows, int64_t f, int64_t n,
                                       float *sum)
{
    if (GPUR_WARP == 1 && a->rounded)
        gpur_layer_backward_rounded(a, rows, f, n, sum);
    else if (GPUR_WARP == 1 && n == 32)
        gpur_layer_backward_run(a, rows, f, 32, sum);
    else if (GPUR_WARP == 1 && n == 64)
        gpur_layer_backward_run(a, rows, f, 64, sum);
    else if (GPUR_WARP == 1)
        gpur_layer_backward_run(a, rows, f, n, sum);
    else if (n == 1 && (a->dy_bf16 || a->y_bf16))
        sum[0] = gpur_layer_backward_column(a, rows, f, a->dy_bf16, a->y_bf16);
    else if (n == 1)
        sum[0] = gpur_layer_backward_column(a, rows, f, 0, 0);
    else if (a->dy_bf16)
        gpur_layer_backward_quads(a, rows, f, 1, 1, sum);
    else if (a->y_bf16)
        gpur_layer_backward_quads(a, rows, f, 0, 1, sum);
    else
        gpur_layer_backward_quads(a, rows, f, 0, 0, sum);
}

/* Adds the sums of shares `first`, first + step, ... of `count` in this order, into the first of them. A share has sums
 * of n columns, and the next begins `width` numbers later. */
GPUR_FN void gpur_shares_add(float *shares, int32_t first, int32_t step, int32_t count, int32_t width, int64_t n)
{
    float sum[GPUR_COLUMN_RUN];
    for (int64_t i = 0; i < n; i++)
        sum[i] = 0.0f;
    for (int32_t share = first; share < count; share += step)
        for (int64_t i = 0; i < n; i++)
            sum[i] += shares[share * width + i];
    for (int64_t i = 0; i < n; i++)
        shares[first * width + i] = sum[i];
}

/* The columns of a launch: a thread processes `run` of them at a time, and `lanes` threads beside each other form a
 * worker. The batch has `shares` shares. */
typedef struct gpur_columns {
    int32_t run, lanes, shares;
} gpur_columns;

/* Whether a GPU's thread should process four columns: they are aligned. */
GPUR_FN int gpur_columns_in_quads(const void *dy, const void *y, const void *rounded, int64_t pitches)
{
    const uint64_t all = (uint64_t)(uintptr_t)dy | (uint64_t)(uintptr_t)y | (uint64_t)(uintptr_t)rounded;
    return GPUR_WARP > 1 && all % 16 == 0 && pitches % 4 == 0;
}

/* With `width` columns in a tile. A GPU's thread that processes one column takes more rows of it. */
GPUR_FN gpur_columns gpur_columns_of(gpur_thread at, int32_t run, int32_t width, int32_t shares)
{
    gpur_columns c;
    c.run = run;
    c.lanes = width / run < at.threads ? width / run : at.threads;
    c.shares = GPUR_WARP > 1 ? shares * run / GPUR_COLUMN_RUN : shares;
    return c;
}

/* Rows of a share: neighboring rows on a CPU, one of every `shares` rows on a GPU, whose neighboring threads thus read
 * neighboring rows. */
GPUR_FN gpur_span gpur_share_rows(int64_t batch, int64_t share, int64_t shares)
{
    gpur_span rows;
    if (GPUR_WARP == 1)
        return gpur_share_of(batch, share, shares);
    rows.first = share, rows.last = batch, rows.step = shares;
    return rows;
}

/* Adds up the sums of the `count` shares into the first, by the whole block. Each worker adds up some in each round. */
GPUR_FN void gpur_shares_total(gpur_thread at, gpur_columns c, float *shares, int32_t count, int64_t n)
{
    const int32_t workers = at.threads / c.lanes, worker = at.thread / c.lanes, lane = at.thread % c.lanes;
    for (int32_t left = count, sums; left > 1; left = sums) {
        sums = (left + GPUR_SHARES_ADDED - 1) / GPUR_SHARES_ADDED;
        for (int32_t i = worker; i < sums && worker < workers && n > 0; i += workers)
            gpur_shares_add(shares + lane * c.run, i, sums, left, c.lanes * c.run, GPUR_WARP > 1 ? c.run : n);
        gpur_barrier(at);
    }
}

GPUR_FN void gpur_copy_floats(float *__restrict__ to, const float *__restrict__ from, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        to[i] = from[i];
}

/* Processes these tiles of columns, by the whole block. */
GPUR_FN void gpur_columns_backward(gpur_thread at, const gpur_layer_backward_args *a, gpur_columns c, gpur_span tiles)
{
    GPUR_SHARED(float, shares, GPUR_COLUMN_SHARES);
    const int32_t workers = at.threads / c.lanes, worker = at.thread / c.lanes, lane = at.thread % c.lanes;
    const int32_t width = c.lanes * c.run, count = a->batch < c.shares ? (int32_t)a->batch : c.shares;
    for (int64_t tile = tiles.first; tile < tiles.last; tile += tiles.step) {
        const int64_t f = tile * width + lane * c.run, left = a->features - f;
        const int64_t n = left <= 0 ? 0 : GPUR_WARP > 1 || left >= c.run ? c.run : left;
        for (int32_t share = worker; share < count && worker < workers && n > 0; share += workers)
            gpur_layer_backward_share(a, gpur_share_rows(a->batch, share, count), f, GPUR_WARP > 1 ? c.run : n,
                                      shares + share * width + lane * c.run);
        gpur_barrier(at);
        gpur_shares_total(at, c, shares, count, n);
        if (worker == 0 && a->bias_gradient)
            gpur_copy_floats(a->bias_gradient + f, shares + lane * c.run, n);
        gpur_barrier(at);
    }
}

/* How many tiles of columns there are. */
GPUR_FN int64_t gpur_column_tiles(gpur_columns c, int64_t features)
{
    return (features + c.lanes * c.run - 1) / (c.lanes * c.run);
}

/* With `run` columns for a thread, which is a constant. */
GPUR_FN void gpur_layer_backward_columns(gpur_thread at, const gpur_layer_backward_args *a, int32_t run)
{
    const gpur_columns c = gpur_columns_of(at, run, GPUR_COLUMN_TILE, GPUR_BATCH_SHARES);
    gpur_columns_backward(at, a, c, gpur_block_rows(at, gpur_column_tiles(c, a->features)));
}

GPUR_KERNEL_OF(layer_backward, 512)
{
    const int64_t sizes = a->features | a->dy_pitch | a->y_pitch;
    if (GPUR_WARP == 1 || gpur_columns_in_quads(a->dy, a->y, a->rounded, sizes))
        gpur_layer_backward_columns(at, a, GPUR_COLUMN_RUN);
    else
        gpur_layer_backward_columns(at, a, 1);
}
