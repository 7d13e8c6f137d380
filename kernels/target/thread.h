/* SPDX-License-Identifier: MIT */
/*
 * A thread's coordinates, its share of the work, and what kernels need of a target.
 *
 * A kernel is written once and compiled for three targets, each of which is one file of this folder: cuda.h (nvcc),
 * cpu.h (a block is one thread, so program order is its barrier) and race.h (a block is several real threads, so that
 * ThreadSanitizer sees what a GPU would do). A kernel does not ask for its target. It is right for every number and
 * size of blocks.
 *
 * A target defines:
 *   GPUR_FN                       qualifier of every function that a kernel calls
 *   GPUR_KERNEL(name)             opens a kernel: `at` is the thread's coordinates, `a` points to its gpur_NAME_args
 *   GPUR_KERNEL_OF(name, most)    the same with blocks of at most `most` threads, a multiple of 32, so that a thread
 *                                 may have more registers; launches of larger blocks are refused
 *   GPUR_KERNEL_THAT_WAITS(name, most)
 *                                 the same for one that calls gpur_wait_for_primary itself: GPUR_KERNEL_PREPARED below
 *   GPUR_KERNEL_COOPERATIVE(name, most)
 *                                 the same for a kernel that calls gpur_grid_sync
 *   GPUR_SHARED(type, name, n)    an array of n numbers shared by the block; keep it small: a CPU has it on the stack
 *   GPUR_WARP                     threads of a warp: 32 (CUDA), 1 (CPU), 4 (race check)
 *   gpur_barrier(at)              barrier of the block; every thread of the block must call it
 *   gpur_grid_sync(at)            grid sync, and a gpur_barrier, too; every thread of every block must call it. What
 *                                 any thread wrote to memory before it, all threads see after it. Only in kernels of
 *                                 GPUR_COOPERATIVE_KERNEL_LIST (kernels/kernels.h), whose launches are cooperative
 *   gpur_warp_get_u32(at, x, l)   the x of lane l of the warp; every thread of it must call it
 *   gpur_warp_sync(at)            what a lane wrote to memory before it, the lanes of its warp see after it; every
 *                                 thread of it must call it
 *   gpur_warp_first(at, yes)      the first lane of the warp with yes != 0, or -1; every thread of it must call it
 *   gpur_is_parallel()            1: neighboring threads get neighboring work (GPU, race check: parallel bodies);
 *                                 0: each thread gets a contiguous share (CPU: serial bodies)
 *   gpur_philox4x32_10(c, k)      128 random bits from a 128-bit counter and a 64-bit key
 *   gpur_mulhi_u64(a, b)          the upper 64 bits of the product
 *   gpur_lowest_bit(x)            number of the lowest bit that is set in x, which is not 0
 *   gpur_prefetch(p)              a hint: on a CPU it prefetches p into the first-level cache
 *   gpur_prefetch_l2(p)           the same for the second-level cache, if the data is too much for the first one
 *   gpur_atomic_add_u32(p, x), gpur_atomic_and_u32
 *   gpur_atomic_add_u64(p, x), gpur_atomic_exchange_u32, gpur_atomic_max_u32, gpur_atomic_min_u32
 *                                 these return the previous value
 *   gpur_arrive_u32(p, n)         counts calls, which are n in all, and returns the number of those before; after the
 *                                 last one the count is 0 again. What a thread wrote before its call, one that gets a
 *                                 larger number sees
 */
#pragma once

#include <math.h>
#include <stdint.h>
#include <string.h>

/* 128 random bits, or the counter that they are computed from. */
typedef struct gpur_u32x4 {
    uint32_t v[4];
} gpur_u32x4;

#if defined(__CUDACC__)
#include "kernels/target/cuda.h"
#elif defined(GPUR_RACE_CHECK)
#include "kernels/target/race.h"
#else
#include "kernels/target/cpu.h"
#endif

/*
 * Opens a kernel for blocks of at most `most` threads, with a part that depends on its arguments alone:
 * gpur_NAME_prepare(at, a), which is defined before it and returns a gpur_NAME_prepared, to which `prepared` points in
 * the kernel. That part must not read what the arguments point to. A GPU runs it while the kernel before this one still
 * runs.
 */
#define GPUR_KERNEL_PREPARED(name, most)                                                                               \
    GPUR_FN void gpur_##name##_run(gpur_thread at, const gpur_##name##_args *a,                                        \
                                   const gpur_##name##_prepared *prepared);                                            \
    GPUR_KERNEL_THAT_WAITS(name, most)                                                                                 \
    {                                                                                                                  \
        const gpur_##name##_prepared prepared = gpur_##name##_prepare(at, a);                                          \
        gpur_wait_for_primary();                                                                                       \
        gpur_##name##_run(at, a, &prepared);                                                                           \
    }                                                                                                                  \
    GPUR_FN void gpur_##name##_run(gpur_thread at, const gpur_##name##_args *a, const gpur_##name##_prepared *prepared)

/* A thread's share of a loop: for (i = first; i < last; i += step). */
typedef struct gpur_span {
    int64_t first, last, step;
} gpur_span;

/* Share number `share` of `shares` contiguous shares of n elements. */
GPUR_FN gpur_span gpur_share_of(int64_t n, int64_t share, int64_t shares)
{
    gpur_span s;
    s.first = n * share / shares;
    s.last = n * (share + 1) / shares;
    s.step = 1;
    return s;
}

/* This thread's share of n elements that are divided among all threads of the grid. */
GPUR_FN gpur_span gpur_grid_span(gpur_thread at, int64_t n)
{
    gpur_span s;
    if (!gpur_is_parallel())
        return gpur_share_of(n, at.block, at.blocks);
    s.first = at.block * at.threads + at.thread;
    s.last = n;
    s.step = at.blocks * at.threads;
    return s;
}

/* This block's share of n rows, the same for each of its threads. */
GPUR_FN gpur_span gpur_block_rows(gpur_thread at, int64_t n)
{
    gpur_span s;
    if (!gpur_is_parallel())
        return gpur_share_of(n, at.block, at.blocks);
    s.first = at.block;
    s.last = n;
    s.step = at.blocks;
    return s;
}

/* This warp's share of n rows that are divided among all warps of the grid. */
GPUR_FN gpur_span gpur_warp_rows(gpur_thread at, int64_t n)
{
    gpur_span s;
    if (!gpur_is_parallel())
        return gpur_share_of(n, at.block, at.blocks);
    s.step = at.blocks * (at.threads / GPUR_WARP);
    s.first = at.block * (at.threads / GPUR_WARP) + at.thread / GPUR_WARP;
    s.last = n;
    return s;
}

/* This thread's share of n columns that are divided among the threads of its block. */
GPUR_FN gpur_span gpur_block_span(gpur_thread at, int64_t n)
{
    gpur_span s;
    s.first = at.thread;
    s.last = n;
    s.step = at.threads;
    return s;
}

/* Returns `at` as if this block were the only one, for a body that is written for a launch of one block. */
GPUR_FN gpur_thread gpur_as_single_block(gpur_thread at)
{
    at.block = 0, at.blocks = 1;
    return at;
}
