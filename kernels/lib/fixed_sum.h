/* SPDX-License-Identifier: MIT */
/* Sums of floats in an order that no launch shape changes: 32 lanes first, then the lanes in their order. */
#pragma once

#include "kernels/target/thread.h"

enum { GPUR_SUM_LANES = 32 };

/* Sum of the elements `lane`, lane + 32, ... of x (n). */
GPUR_FN float gpur_lane_sum(const float *x, int64_t n, int lane)
{
    float sum = 0.0f;
    for (int64_t i = lane; i < n; i += GPUR_SUM_LANES)
        sum += x[i];
    return sum;
}

GPUR_FN float gpur_lanes_total(const float *lanes)
{
    float total = 0.0f;
    for (int lane = 0; lane < GPUR_SUM_LANES; lane++)
        total += lanes[lane];
    return total;
}

/* Sum of x (n), in every thread of the block. Every thread must call it. */
GPUR_FN float gpur_fixed_sum(gpur_thread at, const float *x, int64_t n)
{
    GPUR_SHARED(float, lanes, GPUR_SUM_LANES);
    for (int lane = at.thread; lane < GPUR_SUM_LANES; lane += at.threads)
        lanes[lane] = gpur_lane_sum(x, n, lane);
    gpur_barrier(at);
    const float total = gpur_lanes_total(lanes);
    gpur_barrier(at);
    return total;
}
