/* SPDX-License-Identifier: MIT */
/* The stage GPUR_STAGE_HEADS: the last layers' outputs, the TD error, and the gradient of the hidden layer. Each
 * block processes row tiles of its own, so nothing here waits for another block. */
#pragma once

#include "kernels/lib/collective.h"
#include "kernels/learn/layer_backward.h"
#include "kernels/learn/td_error.h"

enum {
    GPUR_HEAD_ROWS = 8,  /* rows of a row tile, at most */
    GPUR_HIDDEN_RUN = 4, /* numbers of the hidden layer's gradient that a thread computes at a time */
    GPUR_DOT_RUN = 16, /* accumulators of a lane: so many products at a distance of a warp. On a GPU their loads are in
                           flight together; a CPU vectorizes them */
};

/* Dot product of x (n) and y (n), by a warp, in every lane. GPUR_WARP alone fixes the order of additions. */
GPUR_FN float gpur_warp_dot(gpur_thread at, const float *x, const float *y, int64_t n)
{
    float sums[GPUR_DOT_RUN] = {0.0f}, sum = 0.0f;
    int64_t i = gpur_lane(at);
    for (; i + (GPUR_DOT_RUN - 1) * GPUR_WARP < n; i += GPUR_DOT_RUN * GPUR_WARP)
        for (int r = 0; r < GPUR_DOT_RUN; r++)
            sums[r] += x[i + r * GPUR_WARP] * y[i + r * GPUR_WARP];
    for (int r = 0; r < GPUR_DOT_RUN; r++)
        if (i + r * GPUR_WARP < n)
            sums[r] += x[i + r * GPUR_WARP] * y[i + r * GPUR_WARP];
    for (int r = 0; r < GPUR_DOT_RUN; r++)
        sum += sums[r];
    return gpur_warp_sum_f32(at, sum);
}

/* Which outputs: of the online network on obs, of the target network on next_obs, of the online network on next_obs. */
enum { GPUR_OF_OBS = 0, GPUR_OF_TARGET = 1, GPUR_OF_NEXT_OBS = 2 };

/* Computes output k of row b of the batch, without bias, by a warp. */
GPUR_FN void gpur_last_output(gpur_thread at, const gpur_fused_train_steps_args *a, int32_t which, int64_t b, int32_t k)
{
    const gpur_last_layers *const last = &a->last;
    const int target = which == GPUR_OF_TARGET;
    const int64_t row = which == GPUR_OF_NEXT_OBS ? a->td.batch + b : b;
    const int64_t column = k < last->first_outputs ? 0 : last->inputs;
    const float *const x = (target ? last->target : last->online) + row * last->pitch + column;
    const float *const w = (target ? last->target_weight : last->weight) + (int64_t)k * last->inputs;
    const float sum = gpur_warp_dot(at, x, w, last->inputs);
    if (gpur_lane(at) == 0)
        (target ? last->z_target : last->z)[row * a->td.z_pitch + k] = sum;
}

/* Computes every output of rows `first` to first + rows - 1, with a warp for each output. */
GPUR_FN void gpur_last_outputs(gpur_thread at, const gpur_fused_train_steps_args *a, int64_t first, int32_t rows)
{
    const int32_t networks = a->td.double_dqn ? 3 : 2, outputs = a->last.outputs;
    const int32_t warps = at.threads / GPUR_WARP;
    for (int32_t task = at.thread / GPUR_WARP; task < rows * networks * outputs; task += warps) {
        const int32_t k = task % outputs, which = task / outputs % networks;
        gpur_last_output(at, a, which, first + task / outputs / networks, k);
    }
}

/* Whether output k reads number i of the hidden layer. */
GPUR_FN int gpur_output_reads(const gpur_last_layers *last, int32_t k, int32_t i)
{
    const int is_behind = last->first_outputs < last->outputs && i >= last->inputs;
    return i < last->width && is_behind == (k >= last->first_outputs);
}

/* dh = activation'(h) sum_k dz_k W_k over the outputs k that read it, for the numbers first, first + step, ... of a
 * row. Their loads are in flight together. */
GPUR_FN void gpur_hidden_gradient_run(const gpur_last_layers *last, const float *dz, const float *h, int32_t first,
                                      int32_t step, float *dh)
{
    float sum[GPUR_HIDDEN_RUN] = {0.0f}, slope[GPUR_HIDDEN_RUN];
    for (int r = 0; r < GPUR_HIDDEN_RUN; r++)
        slope[r] = first + r * step < last->width ? h[first + r * step] : 0.0f;
    for (int32_t k = 0; k < last->outputs; k++) {
        const float *const w = last->weight + (int64_t)k * last->inputs - (k < last->first_outputs ? 0 : last->inputs);
        for (int r = 0; r < GPUR_HIDDEN_RUN; r++)
            if (gpur_output_reads(last, k, first + r * step))
                sum[r] += dz[k] * w[first + r * step];
    }
    for (int r = 0; r < GPUR_HIDDEN_RUN; r++)
        if (first + r * step < last->width)
            dh[first + r * step] = sum[r] * gpur_activation_derivative(slope[r], last->activation);
}

GPUR_FN void gpur_hidden_gradient(gpur_thread at, const gpur_fused_train_steps_args *a, int64_t first, int32_t rows)
{
    const gpur_last_layers *const last = &a->last;
    for (int64_t b = first; b < first + rows; b++) {
        const int64_t row = b * last->pitch;
        for (int32_t i = at.thread; i < last->width; i += GPUR_HIDDEN_RUN * at.threads)
            gpur_hidden_gradient_run(last, a->td.dz + b * a->td.z_pitch, last->online + row, i, at.threads,
                                     last->gradient + row);
    }
}

GPUR_FN void gpur_fused_heads(gpur_thread at, const gpur_fused_train_steps_args *a)
{
    const int64_t batch = a->td.batch, even = (batch + at.blocks - 1) / at.blocks;
    const int64_t height = even < GPUR_HEAD_ROWS ? even : GPUR_HEAD_ROWS;
    const gpur_span tiles = gpur_block_rows(at, (batch + height - 1) / height);
    for (int64_t tile = tiles.first; tile < tiles.last; tile += tiles.step) {
        const int64_t first = tile * height, left = batch - first;
        const int32_t rows = (int32_t)(left < height ? left : height);
        gpur_last_outputs(at, a, first, rows);
        gpur_barrier(at);
        for (int32_t i = at.thread; i < rows; i += at.threads)
            gpur_td_error_row(&a->td, first + i, NULL);
        gpur_barrier(at);
        gpur_hidden_gradient(at, a, first, rows);
    }
}
