/* SPDX-License-Identifier: MIT */
/* A test kernel that calls every collective: see gpur_collective_probe_args. */
#pragma once

#include "kernels/args_replay.h"
#include "kernels/lib/collective.h"

GPUR_KERNEL(collective_probe)
{
    const int64_t i = at.thread;
    const float x = i < a->n ? a->in[i] : 0.0f;
    const float sum = gpur_block_sum_f32(at, x);
    const uint64_t prefix = gpur_warp_prefix_u64(at, (uint64_t)i + (1ULL << 33));
    const int first = gpur_warp_first(at, x > 0.0f);
    const float zero = gpur_warp_get_f32(at, x, 0);
    if (i == 0)
        *a->sum = sum;
    if (i < a->n)
        a->prefix[i] = prefix, a->first[i] = first, a->lane_zero[i] = zero;
}
