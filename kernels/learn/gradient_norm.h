/* SPDX-License-Identifier: MIT */
/* Partial sums of the gradient's squares, each over GPUR_NORM_CHUNK numbers, in an order that no launch shape
 * changes. Arguments and shapes: gpur_gradient_norm_args. */
#pragma once

#include "kernels/args_learn.h"
#include "kernels/lib/clip.h"
#include "kernels/lib/collective.h"
#include "kernels/lib/quad.h"

/* Each thread of a warp sums so many neighboring numbers, then those a warp's width of them further on. */
enum { GPUR_NORM_RUN = GPUR_WARP == 1 ? 32 : 4, GPUR_NORM_STRIDE = GPUR_NORM_RUN * GPUR_WARP };

/* Adds the squares of this thread's runs of x (n), the first of which begins at `first`: element i of a run goes to
 * sum[i]. On a GPU a run is a quad. */
GPUR_FN void gpur_norm_runs(const float *x, int64_t first, int64_t n, float limit, float *sum)
{
    float quad[4] = {0};
    int64_t row = 0;
    for (int i = 0; i < GPUR_NORM_RUN; i++)
        sum[i] = 0.0f;
    for (; row + GPUR_NORM_STRIDE <= n; row += GPUR_NORM_STRIDE) {
        if (gpur_is_parallel())
            gpur_load_quad(quad, x + row + first);
        for (int i = 0; i < GPUR_NORM_RUN; i++) {
            const float g = gpur_clip(gpur_is_parallel() ? quad[i % 4] : x[row + first + i], limit);
            sum[i] += g * g;
        }
    }
    for (int i = 0; row < n && i < GPUR_NORM_RUN; i++) { /* the rest, which not every thread has */
        const float g = row + first + i < n ? gpur_clip(x[row + first + i], limit) : 0.0f;
        sum[i] += g * g;
    }
}

/* Sum of the squares of x (n, at most GPUR_NORM_CHUNK), by a warp, in every lane. */
GPUR_FN float gpur_norm_chunk(gpur_thread at, const float *x, int64_t n, float limit)
{
    const int first = gpur_lane(at) * GPUR_NORM_RUN;
    float sum[GPUR_NORM_RUN], total = 0.0f;
    gpur_norm_runs(x, first, n, limit, sum);
    for (int i = 0; i < GPUR_NORM_RUN; i++)
        total += sum[i];
    return gpur_warp_sum_f32(at, total);
}

/* Writes the sums of chunk number `chunk`, which is x (n), by a warp. */
GPUR_FN void gpur_norm_write(gpur_thread at, const gpur_gradient_norm_args *a, int64_t chunk, const float *x, int64_t n)
{
    const float sum = gpur_norm_chunk(at, x, n, INFINITY);
    const float clipped = a->clipped ? gpur_norm_chunk(at, x, n, a->clip_value) : 0.0f;
    if (gpur_lane(at) == 0)
        a->partial[chunk] = sum;
    if (gpur_lane(at) == 0 && a->clipped)
        a->clipped[chunk] = clipped;
}

/* The warps of a block share its chunks. A chunk is read from memory once: the second sum finds it in the first-level
 * cache. */
GPUR_KERNEL(gradient_norm)
{
    const gpur_span chunks = gpur_block_rows(at, (a->count + GPUR_NORM_CHUNK - 1) / GPUR_NORM_CHUNK);
    const int warp = at.thread / GPUR_WARP, warps = at.threads / GPUR_WARP;
    for (int64_t chunk = chunks.first + warp * chunks.step; chunk < chunks.last; chunk += warps * chunks.step) {
        const int64_t first = chunk * GPUR_NORM_CHUNK, left = a->count - first;
        gpur_norm_write(at, a, chunk, a->gradient + first, left < GPUR_NORM_CHUNK ? left : GPUR_NORM_CHUNK);
    }
}
