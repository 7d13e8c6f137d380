/* SPDX-License-Identifier: MIT */
/* Kernels of the replay. Axes: B batch, C capacity, N rows of a block, W 4-byte words. */
#ifndef GPUR_ARGS_REPLAY_H
#define GPUR_ARGS_REPLAY_H

#include <stdint.h>

#define GPUR_REPLAY_KERNEL_LIST(X)                                                                                     \
    X(window_set)                                                                                                      \
    X(gather)                                                                                                          \
    X(scatter)                                                                                                         \
    X(collective_probe)                                                                                                \
    X(meet_probe)

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

/* One field's way between a ring of rows and an array of its own, in units of 1, 2, 4, 8 or 16 bytes: the widest that
 * divides every address on the way. */
typedef struct gpur_field_copy {
    unsigned char *array; /* (N) values, `array_pitch` bytes apart */
    int64_t array_pitch;
    int32_t offset;     /* bytes from the start of a row of the ring */
    int32_t units;      /* in one value */
    int32_t first_unit; /* units of the copies before this one */
    int16_t shift;      /* a unit is 1 << shift bytes */
    int16_t flags;      /* 1: a scatter makes every byte other than 0 a 1 */
} gpur_field_copy;

enum {
    GPUR_MAX_COPIES = 17, /* of one launch; a row of more fields is copied by several launches */
    GPUR_TILE = 16,       /* most rows that a block draws at a time */
    GPUR_TILE_BYTES = 4096, /* of a tile of several rows */
};

/* Where a gather's rows come from; the first two are GPUR_UNIFORM and GPUR_UNIFORM_DISTINCT of the public header, and
 * the third is none of its values. */
enum { GPUR_SOURCE_UNIFORM = 1, GPUR_SOURCE_DISTINCT = 2, GPUR_SOURCE_IDS = 5 };

/*
 * Draws B rows of the window and copies the wanted fields of each to arrays of their own. A pure function of (seed,
 * purpose, step, window, B). A row that is not there (the window is empty, or too small for a distinct draw, or has no
 * such id) becomes zeros, with id -1, weight 0 and discount 0.
 */
typedef struct gpur_gather_args {
    const gpur_window *window;
    const unsigned char *ring; /* (C) rows, `pitch` bytes apart */
    int64_t pitch, capacity;
    int64_t batch;             /* B */
    const int64_t *ids;        /* (B) for GPUR_SOURCE_IDS; may be the same memory as `id` */
    const uint64_t *step;      /* (1) the draw's number in device memory; NULL: step_value */
    uint64_t step_value, seed;
    int64_t *id;               /* (B) or NULL */
    float *weight;             /* (B) or NULL: 1 */
    float *discount;           /* (B) or NULL: gamma x (1 - terminated) */
    float gamma;
    uint32_t purpose;          /* of the random numbers: GPUR_DRAW_... for the source and whoever draws */
    int32_t source;
    int32_t terminated_offset; /* of the one byte in a row, or -1: nothing terminates */
    int32_t tile;              /* rows that a block draws at a time, 1 to GPUR_TILE */
    int32_t row_bytes;         /* of a row that are worth reading */
    int32_t copy_count, units; /* units: of one row, over all copies */
    gpur_field_copy copies[GPUR_MAX_COPIES];
} gpur_gather_args;

/* Writes N rows into the ring from `first_slot` on, round its end, each from one array a field. Rewards that are to be
 * clipped on the way are not among the copies. */
typedef struct gpur_scatter_args {
    unsigned char *ring; /* (C) rows, `pitch` bytes apart */
    int64_t pitch, capacity;
    int64_t first_slot, rows;
    const unsigned char *rewards; /* (N) float32 of any alignment, or NULL: none is clipped */
    int32_t reward_offset;        /* bytes from the start of a row of the ring */
    float reward_clip;
    int32_t past;              /* 1: a CPU writes past its caches; tiles have no rewards then */
    int32_t tile;              /* rows that a block writes at a time, 1 to GPUR_TILE */
    int32_t copy_count, units; /* units: of one row, over all copies */
    gpur_field_copy copies[GPUR_MAX_COPIES];
} gpur_scatter_args;

/* Every collective once, for the tests: one block of T threads. */
typedef struct gpur_collective_probe_args {
    const float *in;     /* (n) n at most T */
    int64_t n;
    float *sum;          /* (1) of in */
    uint64_t *prefix;    /* (n) inclusive, within each warp, of i + 2^33 */
    int32_t *first;      /* (n) first lane of the warp with in > 0, or -1 */
    float *lane_zero;    /* (n) in of the warp's lane 0 */
} gpur_collective_probe_args;

enum { GPUR_PROBE_SALTS = 640 };

/*
 * Rounds of reading what other blocks wrote, writing and meeting, for the tests and for timing gpur_meet: with n 0
 * nothing is left but the meeting. Round r makes each number of one sheet from two of the other, modulo 2^32:
 *
 *   out[i] = 5 in[i] + 2 in[(i + reach) mod n] + salts[r mod GPUR_PROBE_SALTS]
 *
 * An odd number and an even one, so that a round can be undone and nothing that went wrong is forgotten. So many salts
 * because a struct this large takes another way through a stream than a small one.
 */
typedef struct gpur_meet_probe_args {
    uint32_t *sheets; /* (2, n) round r reads sheet r mod 2 and writes the other */
    int64_t n, reach; /* reach: 0 to n - 1 */
    int32_t rounds;
    uint32_t salts[GPUR_PROBE_SALTS];
} gpur_meet_probe_args;

#endif
