/* SPDX-License-Identifier: MIT */
/*
 * Where a thread is, and which part of the work is its own.
 *
 * A kernel is written once and compiled for three targets, each of which is one file: target_cuda.h (nvcc),
 * target_cpu.h (one thread a block; barriers are program order) and target_race.h (a block is several real threads, so
 * that ThreadSanitizer sees what a GPU would). A kernel never asks which; it is right for every block count and size.
 *
 * A target defines:
 *   GPUR_FN                       qualifier of every function a kernel calls
 *   GPUR_KERNEL(name)             opens a kernel: `at` is its place, `a` points to its gpur_NAME_args
 *   GPUR_KERNEL_OF(name, most)    the same for one whose blocks have at most that many threads, a multiple of 32, so
 *                                 that each may have more registers; launches of more are refused
 *   GPUR_KERNEL_TOGETHER(name, most)
 *                                 likewise, for one whose blocks meet: see gpur_meet
 *   GPUR_SHARED(type, name, n)    n numbers shared by the block; keep them few, they are on the stack on a CPU
 *   GPUR_WARP                     threads that exchange registers: 32, 1, 4
 *   gpur_barrier(at)              every thread of the block must come here
 *   gpur_meet(at)                 every thread of every block of the launch must come here; what any of them wrote to
 *                                 memory before, all of them see after. It is a gpur_barrier, too. Only in kernels of
 *                                 GPUR_MEETING_KERNEL_LIST (kernels.h), whose blocks are launched together
 *   gpur_warp_get_u32(at, x, l)   the x of the warp's lane l (every thread of the warp must come here)
 *   gpur_warp_first(at, yes)      the first lane of the warp with yes != 0, or -1 (likewise)
 *   gpur_strided()                1: neighbours in the work go to neighbouring threads (GPU); 0: contiguous parts (CPU)
 *   gpur_philox4x32_10(c, k)      128 random bits from a 128-bit counter and a 64-bit key
 *   gpur_mulhi_u64(a, b)          the upper 64 bits of the product
 *   gpur_prefetch(p)              a hint that p will be read soon
 *   gpur_prefetch_far(p)          the same for what is too much for the nearest cache
 *   gpur_atomic_add_u64(p, x), gpur_atomic_exchange_u32, gpur_atomic_max_u32, gpur_atomic_min_u32
 *                                 the last three give the value before
 */
#ifndef GPUR_KERNELS_TARGET_THREAD_H
#define GPUR_KERNELS_TARGET_THREAD_H

#include <math.h>
#include <stdint.h>
#include <string.h>

/* 128 random bits, or the counter they come from. */
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

typedef struct gpur_span {
    int64_t first, last, step;
} gpur_span;

/* Part `part` of `parts` of n elements, contiguous. */
GPUR_FN gpur_span gpur_part_of(int64_t n, int64_t part, int64_t parts)
{
    gpur_span s;
    s.first = n * part / parts;
    s.last = n * (part + 1) / parts;
    s.step = 1;
    return s;
}

/* My share of n elements dealt to the whole grid. */
GPUR_FN gpur_span gpur_grid_span(gpur_place at, int64_t n)
{
    gpur_span s;
    if (!gpur_strided())
        return gpur_part_of(n, at.block, at.blocks);
    s.first = at.block * at.threads + at.thread;
    s.last = n;
    s.step = at.blocks * at.threads;
    return s;
}

/* My block's share of n rows, the same for each of its threads. */
GPUR_FN gpur_span gpur_block_rows(gpur_place at, int64_t n)
{
    gpur_span s;
    if (!gpur_strided())
        return gpur_part_of(n, at.block, at.blocks);
    s.first = at.block;
    s.last = n;
    s.step = at.blocks;
    return s;
}

/* My share of n columns that my block walks together. */
GPUR_FN gpur_span gpur_block_span(gpur_place at, int64_t n)
{
    gpur_span s;
    s.first = at.thread;
    s.last = n;
    s.step = at.threads;
    return s;
}

#endif
