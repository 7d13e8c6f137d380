/* SPDX-License-Identifier: MIT */
/* Sums of floats in an order that no launch shape changes: 256 lanes first, those in 32 lanes, and these in their
 * order. A block does the first two with all of its threads. */
#pragma once

#include "kernels/target/thread.h"

enum { GPUR_SUM_LANES = 256, GPUR_SUM_LAST_LANES = 32 };

/* Sums of x (n) in lanes: lane l gets elements l, l + lanes, ... The threads of the block share the lanes. */
GPUR_FN void gpur_sum_in_lanes(gpur_thread at, const float *x, int64_t n, int lanes, float *to)
{
    if (!gpur_is_parallel()) {
        memset(to, 0, (size_t)lanes * sizeof *to);
        for (int64_t i = 0; i < n; i += lanes)
            for (int lane = 0; lane < (n - i < lanes ? (int)(n - i) : lanes); lane++)
                to[lane] += x[i + lane];
        return;
    }
    for (int lane = at.thread; lane < lanes; lane += at.threads) {
        float sum = 0.0f;
        for (int64_t i = lane; i < n; i += lanes)
            sum += x[i];
        to[lane] = sum;
    }
}

/* Sum of x (n), in every thread of the block. Every thread must call it. */
GPUR_FN float gpur_fixed_sum(gpur_thread at, const float *x, int64_t n)
{
    GPUR_SHARED(float, lanes, GPUR_SUM_LANES);
    GPUR_SHARED(float, last, GPUR_SUM_LAST_LANES);
    gpur_sum_in_lanes(at, x, n, GPUR_SUM_LANES, lanes);
    gpur_barrier(at);
    gpur_sum_in_lanes(at, lanes, GPUR_SUM_LANES, GPUR_SUM_LAST_LANES, last);
    gpur_barrier(at);
    float total = 0.0f;
    for (int lane = 0; lane < GPUR_SUM_LAST_LANES; lane++)
        total += last[lane];
    gpur_barrier(at);
    return total;
}
