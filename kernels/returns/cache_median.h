/* SPDX-License-Identifier: MIT */
/* The median of the errors of a cache's entries, for direct prioritisation [Daley & Amato 2019, section 4.3]. Arguments
 * and shapes: gpur_cache_median_args. */
#pragma once

#include "kernels/args_returns.h"
#include "kernels/lib/collective.h"

/* The bits of numbers that are not negative are in the order of the numbers. Those of GPUR_CACHE_NO_ERROR, which is
 * negative, are above them all. */
GPUR_FN uint32_t gpur_error_bits(float error)
{
    uint32_t bits;
    memcpy(&bits, &error, sizeof bits);
    return bits;
}

/* The entries that are not missing. In every thread of the block, which must all call it. */
GPUR_FN uint64_t gpur_errors_present(gpur_thread at, const gpur_cache_median_args *a)
{
    const gpur_span s = gpur_block_span(at, a->size);
    uint64_t present = 0;
    for (int64_t i = s.first; i < s.last; i += s.step)
        present += gpur_error_bits(a->error[i]) >> 31 == 0;
    return gpur_block_sum_u64(at, present);
}

/* Number k, from 0 on, of the sorted errors, bit by bit: it is the largest number that at most k errors are below. In
 * every thread of the block, which must all call it. */
GPUR_FN float gpur_error_number(gpur_thread at, const gpur_cache_median_args *a, uint64_t k)
{
    const gpur_span s = gpur_block_span(at, a->size);
    uint32_t found = 0;
    for (int bit = 30; bit >= 0; bit--) {
        const uint32_t candidate = found | 1u << bit;
        uint64_t below = 0;
        for (int64_t i = s.first; i < s.last; i += s.step)
            below += gpur_error_bits(a->error[i]) < candidate;
        found = gpur_block_sum_u64(at, below) <= k ? candidate : found;
    }
    float error;
    memcpy(&error, &found, sizeof error);
    return error;
}

GPUR_KERNEL(cache_median)
{
    const uint64_t present = gpur_errors_present(at, a);
    if (present == 0) /* cache_advance has set the median to 0 */
        return;
    const float lower = gpur_error_number(at, a, (present - 1) / 2);
    const float upper = gpur_error_number(at, a, present / 2);
    if (at.block == 0 && at.thread == 0)
        a->state->median = 0.5f * lower + 0.5f * upper;
}
