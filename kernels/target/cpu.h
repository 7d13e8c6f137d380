/* SPDX-License-Identifier: MIT */
/* Target: the CPU. A block is one thread, so program order is the barrier, and a warp is one lane. A cooperative
 * launch is a single block, so program order is the grid sync, too. */
#pragma once

#define GPUR_FN static inline
#define GPUR_WARP 1
#define GPUR_SHARED(type, name, n) type name[n]

#include "kernels/target/host_atomic.h"
#include "kernels/target/host_math.h"

typedef struct gpur_thread {
    int64_t block, blocks;
    int thread, threads;
} gpur_thread;

/* cpu.c is compiled once for each instruction set. GPUR_VARIANT is a part of its symbols and differs each time. */
#ifndef GPUR_VARIANT
#define GPUR_VARIANT v1
#endif
#define GPUR_GLUE3_(a, b, c) a##b##c
#define GPUR_GLUE3(a, b, c) GPUR_GLUE3_(a, b, c)
#define GPUR_CPU_ENTRY(name) GPUR_GLUE3(gpur_##name##_, GPUR_VARIANT, _entry)

#define GPUR_KERNEL(name)                                                                                              \
    static inline void gpur_##name(gpur_thread at, const gpur_##name##_args *a);                                       \
    static void GPUR_CPU_ENTRY(name)(int64_t block, int64_t blocks, const void *args)                                  \
    {                                                                                                                  \
        gpur_thread at;                                                                                                \
        at.block = block, at.blocks = blocks, at.thread = 0, at.threads = 1;                                           \
        gpur_##name(at, (const gpur_##name##_args *)args);                                                             \
    }                                                                                                                  \
    static inline void gpur_##name(gpur_thread at, const gpur_##name##_args *a)
#define GPUR_KERNEL_OF(name, max_threads) GPUR_KERNEL(name)
#define GPUR_KERNEL_THAT_WAITS(name, max_threads) GPUR_KERNEL(name)
#define GPUR_KERNEL_COOPERATIVE(name, max_threads)                                                                     \
    enum { gpur_##name##_is_cooperative = 1 };                                                                         \
    GPUR_KERNEL(name)

GPUR_FN int gpur_is_parallel(void)
{
    return 0;
}
GPUR_FN void gpur_wait_for_primary(void)
{
}
GPUR_FN void gpur_barrier(gpur_thread at)
{
    (void)at;
}
GPUR_FN void gpur_grid_sync(gpur_thread at)
{
    (void)at;
}
GPUR_FN uint32_t gpur_warp_get_u32(gpur_thread at, uint32_t x, int lane)
{
    (void)at, (void)lane;
    return x;
}
GPUR_FN void gpur_warp_sync(gpur_thread at)
{
    (void)at;
}
GPUR_FN int gpur_warp_first(gpur_thread at, int yes)
{
    (void)at;
    return yes ? 0 : -1;
}
/* gcc takes a function that only prefetches for one without effect, and drops calls of it that it does not inline.
 * The empty asm statement prevents this. */
#define gpur_prefetch(address) gpur_prefetch_(address, 3)
#define gpur_prefetch_l2(address) gpur_prefetch_(address, 2)
#define gpur_prefetch_(address, nearness)                                                                              \
    do {                                                                                                               \
        __builtin_prefetch(address, 0, nearness);                                                                      \
        __asm__ volatile("");                                                                                          \
    } while (0)
