/* SPDX-License-Identifier: MIT */
/* Operations that the threads of a warp or a block compute together. With one thread they are identities. */
#pragma once

#include "kernels/target/thread.h"

enum { GPUR_MAX_WARPS = 1024 / GPUR_WARP };

GPUR_FN int gpur_lane(gpur_thread at)
{
    return at.thread % GPUR_WARP;
}

GPUR_FN float gpur_warp_get_f32(gpur_thread at, float x, int lane)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    bits = gpur_warp_get_u32(at, bits, lane);
    memcpy(&x, &bits, sizeof x);
    return x;
}

GPUR_FN uint64_t gpur_warp_get_u64(gpur_thread at, uint64_t x, int lane)
{
    const uint32_t low = gpur_warp_get_u32(at, (uint32_t)x, lane);
    const uint32_t high = gpur_warp_get_u32(at, (uint32_t)(x >> 32), lane);
    return (uint64_t)high << 32 | low;
}

/* Sum over the warp, in every lane. It is a butterfly, so GPUR_WARP alone fixes the order of additions. */
GPUR_FN float gpur_warp_sum_f32(gpur_thread at, float x)
{
    for (int distance = 1; distance < GPUR_WARP; distance *= 2)
        x += gpur_warp_get_f32(at, x, gpur_lane(at) ^ distance);
    return x;
}

/* Inclusive prefix sum: lane l gets the sum of lanes 0 to l. */
GPUR_FN uint64_t gpur_warp_prefix_u64(gpur_thread at, uint64_t x)
{
    for (int distance = 1; distance < GPUR_WARP; distance *= 2) {
        const int from = gpur_lane(at) - distance;
        const uint64_t other = gpur_warp_get_u64(at, x, from < 0 ? 0 : from);
        if (from >= 0)
            x += other;
    }
    return x;
}

/* Sum over the warp, in every lane. */
GPUR_FN uint64_t gpur_warp_sum_u64(gpur_thread at, uint64_t x)
{
    for (int distance = 1; distance < GPUR_WARP; distance *= 2)
        x += gpur_warp_get_u64(at, x, gpur_lane(at) ^ distance);
    return x;
}

/* Inclusive prefix maximum: lane l gets the largest of lanes 0 to l. */
GPUR_FN uint32_t gpur_warp_prefix_max_u32(gpur_thread at, uint32_t x)
{
    for (int distance = 1; distance < GPUR_WARP; distance *= 2) {
        const int from = gpur_lane(at) - distance;
        const uint32_t other = gpur_warp_get_u32(at, x, from < 0 ? 0 : from);
        x = other > x ? other : x;
    }
    return x;
}

GPUR_FN uint32_t gpur_warp_min_u32(gpur_thread at, uint32_t x)
{
    for (int distance = 1; distance < GPUR_WARP; distance *= 2) {
        const uint32_t other = gpur_warp_get_u32(at, x, gpur_lane(at) ^ distance);
        x = other < x ? other : x;
    }
    return x;
}

GPUR_FN uint32_t gpur_warp_max_u32(gpur_thread at, uint32_t x)
{
    for (int distance = 1; distance < GPUR_WARP; distance *= 2) {
        const uint32_t other = gpur_warp_get_u32(at, x, gpur_lane(at) ^ distance);
        x = other > x ? other : x;
    }
    return x;
}

/* Minimum over the block, in every thread. It ends with a barrier, so it may be called again at once. */
GPUR_FN uint32_t gpur_block_min_u32(gpur_thread at, uint32_t x)
{
    GPUR_SHARED(uint32_t, smallest, GPUR_MAX_WARPS);
    const int warps = (at.threads + GPUR_WARP - 1) / GPUR_WARP;
    x = gpur_warp_min_u32(at, x);
    if (at.threads <= GPUR_WARP)
        return x;
    if (gpur_lane(at) == 0)
        smallest[at.thread / GPUR_WARP] = x;
    gpur_barrier(at);
    for (int warp = 0; warp < warps; warp++)
        x = smallest[warp] < x ? smallest[warp] : x;
    gpur_barrier(at);
    return x;
}

/* Sum over the block, in every thread. It ends with a barrier, so it may be called again at once. */
GPUR_FN uint64_t gpur_block_sum_u64(gpur_thread at, uint64_t x)
{
    GPUR_SHARED(uint64_t, sums, GPUR_MAX_WARPS);
    const int warps = (at.threads + GPUR_WARP - 1) / GPUR_WARP;
    uint64_t total = 0;
    x = gpur_warp_sum_u64(at, x);
    if (at.threads <= GPUR_WARP)
        return x;
    if (gpur_lane(at) == 0)
        sums[at.thread / GPUR_WARP] = x;
    gpur_barrier(at);
    for (int warp = 0; warp < warps; warp++)
        total += sums[warp];
    gpur_barrier(at);
    return total;
}

/* Sum over the block, in every thread, in an order fixed by the block's size. It ends with a barrier, so it may be
 * called again at once. */
GPUR_FN float gpur_block_sum_f32(gpur_thread at, float x)
{
    GPUR_SHARED(float, sums, GPUR_MAX_WARPS);
    const int warps = (at.threads + GPUR_WARP - 1) / GPUR_WARP;
    float total = 0.0f;
    x = gpur_warp_sum_f32(at, x);
    if (at.threads <= GPUR_WARP)
        return x;
    if (gpur_lane(at) == 0)
        sums[at.thread / GPUR_WARP] = x;
    gpur_barrier(at);
    for (int warp = 0; warp < warps; warp++)
        total += sums[warp];
    gpur_barrier(at);
    return total;
}

/* Inclusive prefix sum over the block: thread t gets the sum of threads 0 to t, and *total that of all. It ends with a
 * barrier, so it may be called again at once. */
GPUR_FN uint64_t gpur_block_prefix_u64(gpur_thread at, uint64_t x, uint64_t *total)
{
    GPUR_SHARED(uint64_t, sums, GPUR_MAX_WARPS);
    const int warps = (at.threads + GPUR_WARP - 1) / GPUR_WARP, mine = at.thread / GPUR_WARP;
    x = gpur_warp_prefix_u64(at, x);
    *total = gpur_warp_get_u64(at, x, GPUR_WARP - 1);
    if (GPUR_WARP == 1 || at.threads <= GPUR_WARP) /* the first holds on a CPU, whose compiler knows it */
        return x;
    if (gpur_lane(at) == GPUR_WARP - 1)
        sums[mine] = x;
    gpur_barrier(at);
    *total = 0;
    for (int warp = 0; warp < warps; warp++) {
        x += warp < mine ? sums[warp] : 0;
        *total += sums[warp];
    }
    gpur_barrier(at);
    return x;
}

/* Whether this block is the last one of the grid that comes here. Its threads then see what the threads of all blocks
 * wrote before. Every thread of the grid must call it, once in a launch; `arrived` is 0 between launches. */
GPUR_FN int gpur_is_last_to_arrive(gpur_thread at, uint32_t *arrived)
{
    uint32_t before = UINT32_MAX;
    gpur_barrier(at);
    if (at.blocks == 1)
        return 1;
    if (at.thread == 0)
        before = gpur_arrive_u32(arrived, (uint32_t)at.blocks);
    return (int64_t)gpur_block_min_u32(at, before) == at.blocks - 1;
}
