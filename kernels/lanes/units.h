/* SPDX-License-Identifier: MIT */
/* Values and frames as units of 1 << shift bytes, which a warp copies and compares. Those of a stack whose last axis
 * counts the frames do not lie side by side. */
#pragma once

#include "kernels/lib/collective.h"
#include "kernels/replay/field_copy.h"

/* Copies units that lie `step` bytes apart; to contiguous memory. */
GPUR_FN void gpur_copy_units(gpur_thread at, unsigned char *to, const unsigned char *from, int64_t step, int32_t units,
                             int32_t shift)
{
    if (!gpur_is_parallel() && step == (int64_t)1 << shift) {
        memcpy(to, from, (size_t)units << shift);
        return;
    }
    if (!gpur_is_parallel() && shift == 0) {
        for (int64_t u = 0; u < units; u++)
            to[u] = from[u * step];
        return;
    }
    for (int64_t u = gpur_lane(at); u < units; u += GPUR_WARP)
        gpur_store_unit(to + (u << shift), gpur_load_unit(from + u * step, shift), shift);
}

/* Units, the first of them `at`, that lie `step` bytes apart. `at` NULL: zeros. */
typedef struct gpur_units {
    const unsigned char *at;
    int64_t step;
} gpur_units;

/* 1: this thread's share of the units differs. */
GPUR_FN int gpur_units_differ(gpur_thread at, gpur_units a, gpur_units b, int32_t units, int32_t shift)
{
    uint32_t differ = 0;
    for (int64_t u = gpur_lane(at); u < units; u += GPUR_WARP) {
        const gpur_u32x4 x = gpur_load_unit(a.at + u * a.step, shift);
        const gpur_u32x4 y = gpur_load_unit(b.at ? b.at + u * b.step : (const unsigned char *)0, shift);
        for (int i = 0; i < 4; i++)
            differ |= x.v[i] ^ y.v[i];
    }
    return differ != 0;
}
