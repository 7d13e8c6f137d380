/* SPDX-License-Identifier: MIT */
/* Target: CUDA, compiled by nvcc. Random bits come from the toolkit's own Philox, the sync of a cooperative grid from
 * its cooperative groups. */
#pragma once

#include <cooperative_groups.h>
#include <curand_philox4x32_x.h>

#define GPUR_FN static __device__ __forceinline__
#define GPUR_WARP 32
#define GPUR_SHARED(type, name, n) __shared__ type name[n]

typedef struct gpur_thread {
    int64_t block, blocks;
    int thread, threads;
} gpur_thread;

/*
 * Programmatic dependent launch: the blocks of a kernel may become resident while the kernel before it in the stream,
 * its primary, still runs. Every kernel therefore waits until its primary has finished and its writes are visible:
 * first of all, or after the part of GPUR_KERNEL_PREPARED, which depends on its arguments alone. The primary did the
 * same before it finished, so all earlier kernels have finished, too. This holds only if no kernel omits the wait.
 *
 * An ordinary kernel allows its dependent to become resident at once. A cooperative kernel does not: it runs for
 * long, and the resident blocks of its dependent would take room on the multiprocessors from other streams. In
 * ordinary launches neither call has an effect.
 */
GPUR_FN void gpur_allow_dependents(void)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    cudaTriggerProgrammaticLaunchCompletion();
#endif
}
GPUR_FN void gpur_wait_for_primary(void)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    cudaGridDependencySynchronize();
#endif
}

/* Defines the entry of a kernel for blocks of up to `max_threads` threads. The 1 for the blocks on a multiprocessor
 * is needed: without it ptxas aims at several, and for some architectures spills registers to get there. */
#define GPUR_CUDA_ENTRY_(name, max_threads, begin, wait)                                                               \
    static __device__ __forceinline__ void gpur_##name(gpur_thread at, const gpur_##name##_args *a);                   \
    extern "C" __global__ void __launch_bounds__(max_threads, 1)                                                       \
        gpur_##name##_cuda_entry(const __grid_constant__ gpur_##name##_args args)                                      \
    {                                                                                                                  \
        gpur_thread at;                                                                                                \
        begin;                                                                                                         \
        wait;                                                                                                          \
        at.block = blockIdx.x, at.blocks = gridDim.x, at.thread = (int)threadIdx.x, at.threads = (int)blockDim.x;      \
        gpur_##name(at, &args);                                                                                        \
    }                                                                                                                  \
    static __device__ __forceinline__ void gpur_##name(gpur_thread at, const gpur_##name##_args *a)
#define GPUR_KERNEL_OF(name, max_threads)                                                                              \
    GPUR_CUDA_ENTRY_(name, max_threads, gpur_allow_dependents(), gpur_wait_for_primary())
#define GPUR_KERNEL_THAT_WAITS(name, max_threads) GPUR_CUDA_ENTRY_(name, max_threads, gpur_allow_dependents(), (void)0)
#define GPUR_KERNEL(name) GPUR_KERNEL_OF(name, 1024)
#define GPUR_KERNEL_COOPERATIVE(name, max_threads)                                                                     \
    enum { gpur_##name##_is_cooperative = 1 };                                                                         \
    GPUR_CUDA_ENTRY_(name, max_threads, (void)0, gpur_wait_for_primary())

GPUR_FN int gpur_is_parallel(void)
{
    return 1;
}
GPUR_FN void gpur_barrier(gpur_thread at)
{
    (void)at;
    __syncthreads();
}
/* Grid sync. A launch of one block need not be cooperative. */
GPUR_FN void gpur_grid_sync(gpur_thread at)
{
    if (at.blocks == 1)
        __syncthreads();
    else
        cooperative_groups::this_grid().sync();
}
GPUR_FN uint32_t gpur_warp_get_u32(gpur_thread at, uint32_t x, int lane)
{
    (void)at;
    return __shfl_sync(0xffffffffu, x, lane);
}
GPUR_FN void gpur_warp_sync(gpur_thread at)
{
    (void)at;
    __syncwarp();
}
GPUR_FN int gpur_warp_first(gpur_thread at, int yes)
{
    (void)at;
    return __ffs((int)__ballot_sync(0xffffffffu, yes)) - 1;
}
GPUR_FN gpur_u32x4 gpur_philox4x32_10(gpur_u32x4 counter, uint64_t key)
{
    const uint4 bits = curand_Philox4x32_10(make_uint4(counter.v[0], counter.v[1], counter.v[2], counter.v[3]),
                                            make_uint2((uint32_t)key, (uint32_t)(key >> 32)));
    gpur_u32x4 out;
    out.v[0] = bits.x, out.v[1] = bits.y, out.v[2] = bits.z, out.v[3] = bits.w;
    return out;
}
GPUR_FN int gpur_lowest_bit(uint32_t x)
{
    return __ffs((int)x) - 1;
}
GPUR_FN uint64_t gpur_mulhi_u64(uint64_t a, uint64_t b)
{
    return __umul64hi(a, b);
}
GPUR_FN uint64_t gpur_atomic_add_u64(uint64_t *to, uint64_t x)
{
    return atomicAdd((unsigned long long *)to, (unsigned long long)x);
}
GPUR_FN void gpur_atomic_add_u32(uint32_t *to, uint32_t x)
{
    atomicAdd(to, x);
}
GPUR_FN void gpur_atomic_and_u32(uint32_t *to, uint32_t x)
{
    atomicAnd(to, x);
}
GPUR_FN uint32_t gpur_atomic_exchange_u32(uint32_t *to, uint32_t x)
{
    return atomicExch(to, x);
}
GPUR_FN uint32_t gpur_atomic_max_u32(uint32_t *to, uint32_t x)
{
    return atomicMax(to, x);
}
GPUR_FN uint32_t gpur_atomic_min_u32(uint32_t *to, uint32_t x)
{
    return atomicMin(to, x);
}
GPUR_FN uint32_t gpur_arrive_u32(uint32_t *count, uint32_t calls)
{
    __threadfence();
    const uint32_t before = atomicInc(count, calls - 1);
    __threadfence();
    return before;
}
#define gpur_prefetch(address) ((void)(address))
#define gpur_prefetch_l2(address) ((void)(address))
