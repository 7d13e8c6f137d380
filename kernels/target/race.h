/* SPDX-License-Identifier: MIT */
/* Target: the race check. A block is several real threads, a warp has 4 lanes, shared arrays are in memory of the
 * block, and barriers are pthread barriers. ThreadSanitizer then reports on the CPU what would race on a GPU. In a
 * cooperative launch all blocks run at the same time, with one more barrier over all of their threads. */
#pragma once

#include <pthread.h>
#include <setjmp.h>

#define GPUR_FN static inline
#define GPUR_WARP 4

#include "kernels/target/host_atomic.h"
#include "kernels/target/host_math.h"

/* State that the threads of one block share. The launcher creates it: src/device/cpu/launch_race.c. */
typedef struct gpur_team {
    pthread_barrier_t *block_barrier;
    pthread_barrier_t *warp_barriers; /* (threads / GPUR_WARP) */
    pthread_barrier_t *grid_barrier;  /* of all threads of a cooperative launch; else NULL */
    uint32_t *exchange;               /* (threads) one register of each thread, for gpur_warp_get_u32 */
    unsigned char *shared;            /* the block's shared memory */
    int64_t shared_bytes;
    int64_t shared_needed;    /* 0, or the bytes that a kernel needs, if more than shared_bytes: the launch then
                                 fails */
    int sync_not_cooperative; /* 1: a kernel called gpur_grid_sync in a launch that is not cooperative: it fails, too */
    jmp_buf *escapes;         /* (threads) where a thread continues after leaving such a kernel */
} gpur_team;

typedef struct gpur_thread {
    int64_t block, blocks;
    int thread, threads;
    gpur_team *team;
    int64_t shared_used; /* bytes of the arrays declared so far, the same in every thread of the block */
} gpur_thread;

/* Allocates a shared array. Every thread declares the same arrays in the same order, so an array has the same offset
 * in all threads of a block. If it does not fit, all of them leave the kernel here. */
static inline void *gpur_team_alloc_shared(gpur_thread *at, int64_t bytes)
{
    void *const memory = at->team->shared + at->shared_used;
    at->shared_used += (bytes + 63) / 64 * 64;
    if (at->shared_used > at->team->shared_bytes) {
        if (at->thread == 0)
            at->team->shared_needed = at->shared_used;
        longjmp(at->team->escapes[at->thread], 1);
    }
    return memory;
}
#define GPUR_SHARED(type, name, n) type *const name = (type *)gpur_team_alloc_shared(&at, (int64_t)sizeof(type) * (n))

#define GPUR_KERNEL(name)                                                                                              \
    static inline void gpur_##name(gpur_thread at, const gpur_##name##_args *a);                                       \
    static void gpur_##name##_race_entry(gpur_thread at, const void *args)                                             \
    {                                                                                                                  \
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
    return 1;
}
GPUR_FN void gpur_wait_for_primary(void)
{
}
GPUR_FN void gpur_barrier(gpur_thread at)
{
    pthread_barrier_wait(at.team->block_barrier);
}
GPUR_FN void gpur_grid_sync(gpur_thread at)
{
    if (!at.team->grid_barrier) {
        if (at.thread == 0)
            at.team->sync_not_cooperative = 1;
        longjmp(at.team->escapes[at.thread], 1);
    }
    pthread_barrier_wait(at.team->grid_barrier);
}
GPUR_FN uint32_t gpur_warp_get_u32(gpur_thread at, uint32_t x, int lane)
{
    const int warp = at.thread / GPUR_WARP;
    at.team->exchange[at.thread] = x;
    pthread_barrier_wait(&at.team->warp_barriers[warp]);
    const uint32_t got = at.team->exchange[warp * GPUR_WARP + lane];
    pthread_barrier_wait(&at.team->warp_barriers[warp]);
    return got;
}
GPUR_FN void gpur_warp_sync(gpur_thread at)
{
    pthread_barrier_wait(&at.team->warp_barriers[at.thread / GPUR_WARP]);
}
GPUR_FN int gpur_warp_first(gpur_thread at, int yes)
{
    int first = -1;
    for (int lane = GPUR_WARP - 1; lane >= 0; lane--)
        if (gpur_warp_get_u32(at, (uint32_t)(yes != 0), lane))
            first = lane;
    return first;
}
#define gpur_prefetch(address) ((void)(address))
#define gpur_prefetch_l2(address) ((void)(address))
