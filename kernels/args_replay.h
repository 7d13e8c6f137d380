/* SPDX-License-Identifier: MIT */
/* Argument structs of the replay's kernels. Axes: B batch, C capacity, N rows to be written. */
#pragma once

#include "gpureplay/replay.h"

#define GPUR_REPLAY_KERNEL_LIST(X)                                                                                     \
    X(window_set)                                                                                                      \
    X(gather)                                                                                                          \
    X(scatter)                                                                                                         \
    X(write_field)                                                                                                     \
    X(collective_probe)                                                                                                \
    X(grid_sync_probe)

/* The window of rows that can be sampled: `count` rows from slot `first_slot` on, which wrap around the ring's end.
 * The oldest row has id `first_id`. The window is in device memory, so that a captured step sees what was published
 * since the capture; the host keeps a mirror of it. */
typedef struct gpur_window {
    int64_t first_id, first_slot, count;
    const unsigned char *lane_flags; /* (C) of rows of lanes, of which only whole ones can be sampled
                                        (kernels/args_lanes.h); NULL: all rows can */
} gpur_window;

/* Sets the window. Enqueued after the copies of the rows that enter it. */
typedef struct gpur_window_set_args {
    gpur_window *window; /* (1) */
    gpur_window value;
} gpur_window_set_args;

/* Copies one field between the rows of a ring and an array of its own, in units of 1, 2, 4, 8 or 16 bytes: the widest
 * unit that divides all addresses and pitches involved. */
typedef struct gpur_field_copy {
    unsigned char *array; /* (N) values, `array_pitch` bytes apart */
    int64_t array_pitch;
    int32_t offset;     /* of the field in a row of the ring, in bytes */
    int32_t units;      /* in one value of the field */
    int32_t first_unit; /* units of one row that the copies before this one take */
    int16_t shift;      /* a unit is 1 << shift bytes */
    int16_t flags;      /* 1: a scatter stores every byte other than 0 as 1 */
} gpur_field_copy;

enum {
    GPUR_MAX_LAUNCH_COPIES = 17, /* field copies in one kernel launch; a row of more fields takes several */
    GPUR_MAX_TILE_ROWS = 16,     /* rows of a row tile, at most */
    GPUR_TILE_BYTES = 4096,      /* bytes of a row tile, at most, unless it is a single row */
    GPUR_WARP_UNITS = 64,        /* units of a row that a warp of a GPU copies alone, at most */
};

/* 1: the older form of draws on a GPU, which remains until both have been measured on one: row tiles for all rows, and
 * a kernel each for drawing by priority, gathering, weighing, and each phase of an update. It is an option of the
 * build, GPUREPLAY_SEPARATE_DRAWS. */
#ifdef GPUR_SEPARATE_DRAWS
enum { GPUR_DRAWS_ARE_SEPARATE = 1 };
#else
enum { GPUR_DRAWS_ARE_SEPARATE = 0 };
#endif

/* Where a gather gets its rows from: it samples them, uniformly or without replacement, or takes given ids. */
enum { GPUR_GATHER_UNIFORM = GPUR_UNIFORM, GPUR_GATHER_DISTINCT = GPUR_UNIFORM_DISTINCT, GPUR_GATHER_IDS };

/*
 * Samples B rows of the window, or takes B rows given by id, and copies the wanted fields of each to arrays of their
 * own. A pure function of (seed, purpose, step, window, B). Row b is missing if the window is empty, has no more than
 * b rows for a distinct sample, or lacks the given id. A missing row becomes zeros with id -1, weight 0 and discount
 * 0.
 */
typedef struct gpur_gather_args {
    const gpur_window *window;
    const unsigned char *ring; /* (C) rows, `pitch` bytes apart */
    int64_t pitch, capacity;
    int64_t batch;        /* B */
    const int64_t *turn;  /* (C) of the slots: see kernels/lib/turn.h. NULL: the window's ids follow each other */
    const int64_t *ids;   /* (B) for GPUR_GATHER_IDS; may be the same memory as `id` */
    const uint64_t *step; /* (1) number of this sample, in device memory; NULL: step_value */
    uint64_t step_value, seed;
    int64_t *id;     /* (B) or NULL */
    float *weight;   /* (B) or NULL: 1, or 0 for a missing row */
    float *discount; /* (B) or NULL: gamma x (1 - terminated) */
    float gamma;
    uint32_t purpose; /* GPUR_RANDOM_* of this source and caller, for the random numbers */
    int32_t source;
    int32_t terminated_offset; /* of the byte `terminated` in a row; -1: there is none, and no row is terminal */
    int32_t tile_rows;         /* rows of a row tile, 1 to GPUR_MAX_TILE_ROWS */
    int32_t row_bytes;         /* of a row without the padding at its end */
    int32_t copy_count, units; /* units: of one row, over all copies */
    gpur_field_copy copies[GPUR_MAX_LAUNCH_COPIES];
} gpur_gather_args;

/* Writes N rows into the ring from `first_slot` on, wrapping around its end; or, with `slots`, row n into slot
 * slots[(first_slot + n) mod C]. Each field comes from an array of its own. Rewards that are to be clipped on the way
 * are not among the copies. */
typedef struct gpur_scatter_args {
    unsigned char *ring; /* (C) rows, `pitch` bytes apart */
    int64_t pitch, capacity;
    int64_t first_slot, rows;
    const int64_t *slots;         /* (C) or NULL */
    const unsigned char *rewards; /* (N) float32 of any alignment, clipped on the way; NULL: none are */
    int32_t reward_offset;        /* bytes from the start of a row of the ring */
    float reward_clip;
    int32_t nontemporal;       /* 1: a CPU uses non-temporal stores; if `pitch` is at most GPUR_TILE_BYTES, `rewards`
                                  must then be NULL and the copies be all of the row's */
    int32_t tile_rows;         /* rows of a row tile, 1 to GPUR_MAX_TILE_ROWS */
    int32_t copy_count, units; /* units: of one row, over all copies */
    gpur_field_copy copies[GPUR_MAX_LAUNCH_COPIES];
} gpur_scatter_args;

/* Writes N values of one field into the rows with these ids. An id that is not in the window is stale: it is counted
 * and ignored. Of several values for one row the last one counts. */
typedef struct gpur_write_field_args {
    const gpur_window *window;
    unsigned char *ring; /* (C) rows, `pitch` bytes apart */
    int64_t pitch, capacity;
    int64_t count;        /* N */
    const int64_t *turn;  /* (C) or NULL, as in gpur_gather_args */
    const int64_t *ids;   /* (N) */
    uint64_t *stale;      /* (1) or NULL: not counted */
    float reward_clip;    /* above 0: the field is one float32, which is clipped */
    gpur_field_copy copy; /* from its array */
} gpur_write_field_args;

/* Calls every collective once, for the tests: one block of T threads. */
typedef struct gpur_collective_probe_args {
    const float *in; /* (n) n at most T */
    int64_t n;
    float *sum;       /* (1) of in */
    uint64_t *prefix; /* (n) inclusive, within each warp, of i + 2^33 */
    int32_t *first;   /* (n) first lane of the warp with in > 0, or -1 */
    float *lane_zero; /* (n) in of the warp's lane 0 */
} gpur_collective_probe_args;

enum { GPUR_SYNC_PROBE_SALTS = 640 };

/*
 * Tests and times gpur_grid_sync. In each round, every number of one buffer is computed from two numbers of the other
 * one, which other blocks may have written; then comes a grid sync. With n = 0 only the grid syncs are left. Round r,
 * modulo 2^32:
 *
 *   out[i] = 5 in[i] + 2 in[(i + reach) mod n] + salts[r mod GPUR_SYNC_PROBE_SALTS]
 *
 * One factor is odd and the other even, so every round can be inverted and no error is lost in later rounds. There
 * are so many salts because large argument structs pass through a stream in another way than small ones.
 */
typedef struct gpur_grid_sync_probe_args {
    uint32_t *buffers; /* (2, n) round r reads buffer r mod 2 and writes the other */
    int64_t n, reach;  /* reach: 0 to n - 1 */
    int32_t rounds;
    uint32_t salts[GPUR_SYNC_PROBE_SALTS];
} gpur_grid_sync_probe_args;
