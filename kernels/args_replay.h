/* SPDX-License-Identifier: MIT */
/* Kernels of the replay. Axes: B batch, C capacity, N rows of a block, W 4-byte words. */
#ifndef GPUR_ARGS_REPLAY_H
#define GPUR_ARGS_REPLAY_H

#include <stdint.h>

#define GPUR_REPLAY_KERNEL_LIST(X)                                                                                     \
    X(window_set)                                                                                                      \
    X(collective_probe)

/* What a draw may see: `count` rows from slot `first_slot` on, round the ring, the oldest of which has id `first_id`.
 * It lives in device memory, so that a recorded step sees what was published since; the host keeps a mirror. */
typedef struct gpur_window {
    int64_t first_id, first_slot, count;
} gpur_window;

/* The window's next value, enqueued behind the copies that fill it. */
typedef struct gpur_window_set_args {
    gpur_window *window; /* (1) */
    gpur_window value;
} gpur_window_set_args;

/* Every collective once, for the tests: one block of T threads. */
typedef struct gpur_collective_probe_args {
    const float *in;     /* (n) n at most T */
    int64_t n;
    float *sum;          /* (1) of in */
    uint64_t *prefix;    /* (n) inclusive, within each warp, of i + 2^33 */
    int32_t *first;      /* (n) first lane of the warp with in > 0, or -1 */
    float *lane_zero;    /* (n) in of the warp's lane 0 */
} gpur_collective_probe_args;

#endif
