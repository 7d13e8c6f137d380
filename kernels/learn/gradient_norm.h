/* SPDX-License-Identifier: MIT */
/* Partial sums of the gradient's squares, each over GPUR_NORM_CHUNK numbers, in an order that no launch shape
 * changes. Arguments and shapes: gpur_gradient_norm_args. */
#pragma once

#include "kernels/args_learn.h"
#include "kernels/lib/clip.h"
#include "kernels/target/thread.h"

enum { GPUR_NORM_RUN = GPUR_WARP == 1 ? GPUR_NORM_LANES : 1 }; /* neighboring lanes that one thread sums */

/* Adds the squares of x (n) to the lanes: element i goes to lane i % GPUR_NORM_LANES, and this thread has a run of
 * lanes. */
GPUR_FN void gpur_norm_lanes(const float *x, int64_t n, float limit, float *sum)
{
    for (int i = 0; i < GPUR_NORM_RUN; i++)
        sum[i] = 0.0f;
    int64_t row = 0;
    for (; row + GPUR_NORM_RUN <= n; row += GPUR_NORM_LANES)
        for (int i = 0; i < GPUR_NORM_RUN; i++) {
            const float g = gpur_clip(x[row + i], limit);
            sum[i] += g * g;
        }
    for (int64_t i = row; i < n; i++) {
        const float g = gpur_clip(x[i], limit);
        sum[i - row] += g * g;
    }
}

/* Sum of the squares of x (n, at most GPUR_NORM_CHUNK), by the whole block; thread 0 writes it. */
GPUR_FN void gpur_norm_chunk(gpur_thread at, const float *x, int64_t n, float limit, float *to)
{
    GPUR_SHARED(float, lanes, GPUR_NORM_LANES);
    float sum[GPUR_NORM_RUN];
    for (int lane = at.thread * GPUR_NORM_RUN; lane < GPUR_NORM_LANES; lane += at.threads * GPUR_NORM_RUN) {
        gpur_norm_lanes(x + lane, n - lane, limit, sum);
        for (int i = 0; i < GPUR_NORM_RUN; i++)
            lanes[lane + i] = sum[i];
    }
    gpur_barrier(at);
    if (at.thread == 0) {
        float total = 0.0f;
        for (int lane = 0; lane < GPUR_NORM_LANES; lane++)
            total += lanes[lane];
        *to = total;
    }
    gpur_barrier(at);
}

/* A chunk is read from memory once: the second sum finds it in the first-level cache. */
GPUR_KERNEL(gradient_norm)
{
    const gpur_span chunks = gpur_block_rows(at, (a->count + GPUR_NORM_CHUNK - 1) / GPUR_NORM_CHUNK);
    for (int64_t chunk = chunks.first; chunk < chunks.last; chunk += chunks.step) {
        const int64_t first = chunk * GPUR_NORM_CHUNK, left = a->count - first;
        const int64_t n = left < GPUR_NORM_CHUNK ? left : GPUR_NORM_CHUNK;
        gpur_norm_chunk(at, a->gradient + first, n, INFINITY, a->partial + chunk);
        if (a->clipped)
            gpur_norm_chunk(at, a->gradient + first, n, a->clip_value, a->clipped + chunk);
    }
}
