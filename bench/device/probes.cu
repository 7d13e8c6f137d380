// SPDX-License-Identifier: MIT
// The probes: see args_probes.h. The only file beside kernels/cuda.cu that nvcc sees.
#include "bench/device/args_probes.h"
#include "kernels/lib/bf16.h"
#include "kernels/lib/random.h"

#include <cooperative_groups.h>
#include <cuda_runtime_api.h>

#define PROBE(name, threads)                                                                                           \
    extern "C" __global__ void __launch_bounds__(threads, 1)                                                           \
        gpur_##name##_cuda_entry(const __grid_constant__ name##_args a)

static __device__ __forceinline__ uint32_t arrive(uint32_t *counter)
{
    uint32_t before;
    asm volatile("atom.add.acq_rel.gpu.global.u32 %0, [%1], 1;" : "=r"(before) : "l"(counter) : "memory");
    return before;
}

static __device__ __forceinline__ uint32_t look(const uint32_t *counter)
{
    uint32_t now;
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(now) : "l"(counter) : "memory");
    return now;
}

// Thread 0 stands for its block: released by the first block barrier, it publishes what all of them wrote; the second
// one holds them until it has seen everybody's arrival. `goal` arrivals end this round.
static __device__ __forceinline__ void meet_by_hand(uint32_t *counter, uint32_t goal)
{
    __syncthreads();
    if (threadIdx.x == 0 && arrive(counter) + 1 != goal)
        while (look(counter) < goal)
            ;
    __syncthreads();
}

// Two halves of `written`, in turn: a block writes one again only behind the barrier after that behind which its
// neighbour read it.
PROBE(probe_barrier, 1024)
{
    const uint32_t blocks = gridDim.x, block = blockIdx.x, neighbour = (block + 1) % blocks;
    uint32_t goal = 0, sum = 0;
    for (int32_t r = 0; r < a.rounds; r++) {
        volatile uint32_t *const written = a.written + (r & 1) * blocks;
        if (threadIdx.x == 0)
            written[block] = (uint32_t)r + block;
        goal += blocks;
        if (a.by_hand)
            meet_by_hand(a.arrived, goal);
        else
            cooperative_groups::this_grid().sync();
        sum += written[neighbour];
    }
    if (threadIdx.x == 0)
        a.sum[block] = sum;
}

// Half a warp a row: 15 or 16 of its 16 lanes move 16 bytes each, or all of them 4 bytes again and again.
PROBE(probe_rows, 256)
{
    const int64_t halves = (int64_t)gridDim.x * (blockDim.x / 16);
    const int32_t lane = (int32_t)threadIdx.x % 16;
    for (int64_t b = blockIdx.x * (int64_t)(blockDim.x / 16) + threadIdx.x / 16; b < a.batch; b += halves) {
        const gpur_u32x4 bits = gpur_random_bits(a.seed, a.purpose, *a.step, (uint32_t)b);
        const unsigned char *const from = a.ring + (int64_t)gpur_random_below(bits, (uint64_t)a.rows) * a.pitch;
        unsigned char *const to = a.to + b * a.pitch;
        for (int32_t u = lane; u < a.units; u += 16)
            if (a.wide)
                ((uint4 *)to)[u] = ((const uint4 *)from)[u];
            else
                ((uint32_t *)to)[u] = ((const uint32_t *)from)[u];
    }
}

enum { SIDE = 84, BLOCK = 4, PLACES = 4, BLOCKS = SIDE / BLOCK };

static __device__ __forceinline__ uint32_t four_pixels(const probe_pixels_args *a, uint32_t link, int32_t at)
{
    if (link == 0 || link > a->slots)
        return 0;
    return *(const uint32_t *)(a->frames + (int64_t)(link - 1) * a->pitch + at);
}

// Byte x of a frame's four pixels as bfloat16.
static __device__ __forceinline__ uint32_t number(const probe_pixels_args *a, uint32_t pixels, int32_t x)
{
    return gpur_bf16_round((float)(pixels >> 8 * x & 0xff) * a->scale);
}

// Four pixels of each of a stack's frames: 16 numbers, pixel by pixel, in two moves of 16 bytes.
static __device__ __forceinline__ void write_stack(const probe_pixels_args *a, uint16_t *to, const uint32_t *pixels)
{
    for (int32_t half = 0; half < 2; half++) {
        uint32_t pairs[4];
        for (int32_t i = 0; i < 4; i++) {
            const int32_t x = 2 * half + i / 2, place = 2 * (i % 2);
            pairs[i] = number(a, pixels[place], x) | number(a, pixels[place + 1], x) << 16;
        }
        ((uint4 *)to)[half] = make_uint4(pairs[0], pairs[1], pairs[2], pairs[3]);
    }
}

// A thread has a row of a block of 4 x 4 pixels, of both stacks of a transition. Threads in a row of each other fill
// memory in a row. A frame that both stacks have is read once.
PROBE(probe_pixels, 256)
{
    const int64_t all = a.batch * BLOCKS * BLOCKS * BLOCK, step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < all; i += step) {
        const int64_t b = i / (BLOCKS * BLOCKS * BLOCK);
        const int32_t inside = (int32_t)(i - b * (BLOCKS * BLOCKS * BLOCK)), y = inside % BLOCK;
        const int32_t row = inside / BLOCK / BLOCKS, column = inside / BLOCK % BLOCKS;
        const int32_t at = (row * BLOCK + y) * SIDE + column * BLOCK;
        const uint32_t *const links = a.links + b * 2 * PLACES;
        uint32_t obs[PLACES], next[PLACES];
        for (int32_t p = 0; p < PLACES; p++)
            obs[p] = four_pixels(&a, links[p], at);
        for (int32_t p = 0; p < PLACES; p++) {
            const int32_t same = p + 1 < PLACES && links[PLACES + p] == links[p + 1];
            next[p] = same ? obs[p + 1 < PLACES ? p + 1 : p] : four_pixels(&a, links[PLACES + p], at);
        }
        write_stack(&a, a.obs + i * (BLOCK * PLACES), obs);
        write_stack(&a, a.next_obs + i * (BLOCK * PLACES), next);
    }
}

PROBE(probe_condition, 32)
{
    if (threadIdx.x != 0 || blockIdx.x != 0)
        return;
    const int32_t left = *a.left;
    *a.left = left > 0 ? left - 1 : a.rounds - 1;
#if CUDART_VERSION >= 13000
    cudaGraphSetConditional(a.handle, left > 0);
#endif
}

#define ENTRY(name) (const void *)gpur_##name##_cuda_entry,
extern "C" const void *const probe_entries[PROBE_COUNT] = {PROBE_LIST(ENTRY)};
