/* SPDX-License-Identifier: MIT */
/*
 * Arguments of the probes: kernels that the benchmarks alone have, to find what one of the library's could reach, or
 * what a way that it does not go would cost. They exist on CUDA only.
 */
#ifndef BENCH_DEVICE_ARGS_PROBES_H
#define BENCH_DEVICE_ARGS_PROBES_H

#include <stdint.h>

#define PROBE_LIST(X)                                                                                                  \
    X(probe_barrier)                                                                                                   \
    X(probe_rows)                                                                                                      \
    X(probe_pixels)                                                                                                    \
    X(probe_condition)

#define PROBE_ID_LINE(name) ID_##name,
enum { PROBE_LIST(PROBE_ID_LINE) PROBE_COUNT };
#undef PROBE_ID_LINE

/* `rounds` barriers over the whole grid, all blocks of which run at once. In round r block b writes r + b, and behind
 * the barrier adds what its neighbour wrote to its own sum: r + (b + 1) % blocks, if nobody gets through too early. */
typedef struct probe_barrier_args {
    uint32_t *arrived; /* (1) 0 before the launch; used by_hand */
    uint32_t *written; /* (2, blocks) */
    uint32_t *sum;     /* (blocks) out */
    int32_t rounds;
    int32_t by_hand; /* 1: one atomic counter, 0: cooperative groups */
} probe_barrier_args;

/* Copies `batch` rows, drawn as gpur_gather_args draws them, by half a warp each: the gather with all that a library
 * must ask left out. */
typedef struct probe_rows_args {
    const unsigned char *ring; /* (rows) rows, `pitch` bytes apart */
    unsigned char *to;         /* (batch) rows, `pitch` bytes apart */
    int64_t pitch, rows, batch;
    const uint64_t *step; /* (1) */
    uint64_t seed;
    uint32_t purpose;
    int32_t units; /* of a row */
    int32_t wide;  /* 1: units of 16 bytes, 0: of 4 */
} probe_rows_args;

/* Frames of 84 x 84 bytes to stacks of 4 as a first convolution with space-to-depth reads them, in one kernel: what
 * gpur_gather_frames_args and gpur_observe_args (planes, block 4, bf16) do one after the other. */
typedef struct probe_pixels_args {
    const unsigned char *frames; /* (slots) frames, `pitch` bytes apart, a multiple of 4 */
    const uint32_t *links;       /* (batch, 8) 1 + slot; 0, and what is beyond the slots: zeros */
    uint16_t *obs, *next_obs;    /* (batch, 21, 21, 64) bfloat16 */
    int64_t pitch, batch;
    uint32_t slots;
    float scale;
} probe_pixels_args;

/* Ends a WHILE: counts `left` down from `rounds`, sets the condition to whether any are left, and begins anew at 0. */
typedef struct probe_condition_args {
    unsigned long long handle; /* cudaGraphConditionalHandle */
    int32_t *left;             /* (1) rounds - 1 before the first */
    int32_t rounds;
} probe_condition_args;

#endif
