/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdint.h>

static inline int64_t gpur_min(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static inline int64_t gpur_max(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* The quotient of positive numbers, rounded up. */
static inline int64_t gpur_divide_up(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

/* The next multiple of `granule`. */
static inline int64_t gpur_round_up(int64_t a, int64_t granule)
{
    return gpur_divide_up(a, granule) * granule;
}

/* The smallest power of two above x. */
static inline int64_t gpur_power_above(int64_t x)
{
    int64_t power = 1;
    while (power <= x)
        power *= 2;
    return power;
}
