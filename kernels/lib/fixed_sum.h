/* SPDX-License-Identifier: MIT */
/* Sums of floats in an order that no launch shape changes: 256 lanes first, those in 32 lanes, and these in their
 * order. A block does the first two with all of its threads. */
#pragma once

#include "kernels/target/thread.h"

enum { GPUR_SUM_LANES = 256, GPUR_SUM_LAST_LANES = 32 };

/* Sum of the elements `lane`, lane + lanes, ... of x (n). */
GPUR_FN float gpur_lane_sum(const float *x, int64_t n, int lane, int lanes)
{
    float sum = 0.0f;
    for (int64_t i = lane; i < n; i += lanes)
        sum += x[i];
    return sum;
}

/* The first lanes of a sum of n numbers: those that have any. */
GPUR_FN int gpur_sum_lanes(int64_t n)
{
    return n < GPUR_SUM_LANES ? (int)n : GPUR_SUM_LANES;
}

GPUR_FN float gpur_lanes_total(const float *last)
{
    float total = 0.0f;
    for (int lane = 0; lane < GPUR_SUM_LAST_LANES; lane++)
        total += last[lane];
    return total;
}

/* Sum of x (n), in every thread of the block. Every thread must call it. */
GPUR_FN float gpur_fixed_sum(gpur_thread at, const float *x, int64_t n)
{
    GPUR_SHARED(float, lanes, GPUR_SUM_LANES);
    GPUR_SHARED(float, last, GPUR_SUM_LAST_LANES);
    const int count = gpur_sum_lanes(n);
    for (int lane = at.thread; lane < count; lane += at.threads)
        lanes[lane] = gpur_lane_sum(x, n, lane, GPUR_SUM_LANES);
    gpur_barrier(at);
    for (int lane = at.thread; lane < GPUR_SUM_LAST_LANES; lane += at.threads)
        last[lane] = gpur_lane_sum(lanes, count, lane, GPUR_SUM_LAST_LANES);
    gpur_barrier(at);
    const float total = gpur_lanes_total(last);
    gpur_barrier(at);
    return total;
}
