/* SPDX-License-Identifier: MIT */
/* Argument structs of the kernels of a learner's cache of returns. Axes: S entries of the cache, R rows of a chunk, L
 * rows of a block, B batch, A actions, Z outputs of the network, C capacity. */
#pragma once

#include "kernels/args_lanes.h"
#include "kernels/args_learn.h"
#include "kernels/args_replay.h"

#include <stdint.h>

#define GPUR_RETURNS_KERNEL_LIST(X)                                                                                    \
    X(cache_advance)                                                                                                   \
    X(cache_values)                                                                                                    \
    X(cache_returns)                                                                                                   \
    X(cache_median)                                                                                                    \
    X(cache_draw)                                                                                                      \
    X(cache_copy)

/* An entry of the cache. Its row has the id gpur_cache_state.first_id + address. */
typedef struct gpur_cache_entry {
    uint32_t address; /* GPUR_CACHE_MISSING: there is no such row, and the entry trains nothing */
    float value;      /* the return; during a refresh first v(s') */
} gpur_cache_entry;

#define GPUR_CACHE_MISSING UINT32_MAX
#define GPUR_CACHE_NO_ERROR (-1.0f) /* in place of the error of a missing entry */

/* What changes from refresh to refresh and from chunk to chunk, in device memory. */
typedef struct gpur_cache_state {
    int64_t first_id;     /* of the oldest row at the refresh */
    uint64_t first_step;  /* train steps done at the refresh */
    uint64_t block_step;  /* the number of the next draw of blocks */
    int64_t next_entry;   /* the first entry of the chunk in progress */
    int64_t found;        /* rows that the chunks of the refresh have found so far */
    float prioritization; /* p */
    float median;         /* of the errors of all entries but missing ones; 0: there are none */
} gpur_cache_state;

/* What cache_advance does. */
enum { GPUR_REFRESH_BEGINS = 0, GPUR_REFRESH_GOES_ON = 1, GPUR_REFRESH_ENDS = 2 };

/* Begins a refresh, goes on to its next chunk, or ends it: one without any row is counted in the train state. */
typedef struct gpur_cache_advance_args {
    gpur_cache_state *state;
    gpur_train_state *train;
    const gpur_window *window;
    const int64_t *id;          /* (R) of the chunk that is done; -1: no such row */
    int64_t size, rows, chunks; /* S; R; chunks of a refresh */
    int32_t what;               /* GPUR_REFRESH_* */
    float p_first, p_last;
    int64_t p_begin, p_steps;
} gpur_cache_advance_args;

/* Stores a chunk's rows in the cache: v(s') = max_a Q(s', a) and the address of each; where wanted, Q(s, a), whether a
 * is greedy, and a. An action that the network does not have has Q 0, is not greedy, and is stored as -1. */
typedef struct gpur_cache_values_args {
    const gpur_cache_state *state;
    const float *z;      /* (R, Z) outputs for obs, rows `z_pitch` apart; NULL: not wanted */
    const float *z_next; /* (R, Z) outputs for next_obs; the same pitch */
    const float *bias;   /* (Z) */
    float *q;            /* (R, A) scratch */
    const int64_t *id;   /* (R) of the rows; -1: missing */
    const void *action;  /* (R) int32, or int64 if action_is_int64; NULL: not wanted */
    gpur_cache_entry *entry;
    float *taken;          /* (S) out: Q(s, a); NULL: not wanted, as is z */
    uint8_t *greedy;       /* (S) out: 1 if Q(s, a) = v(s), else 0; NULL: not wanted */
    int32_t *cache_action; /* (S) out; NULL: not wanted */
    int64_t size, rows, z_pitch;
    int32_t head, num_actions; /* head: Q or DUELING */
    int32_t action_is_int64;
} gpur_cache_values_args;

/* The rules by which returns are computed. */
enum { GPUR_RETURNS_LAMBDA = 0, GPUR_RETURNS_N_STEP = 1, GPUR_RETURNS_MEDIAN = 2, GPUR_RETURNS_ERROR_BOUND = 3 };

/* Replaces the v(s') of all entries by their returns, block by block. The formulas are in
 * kernels/returns/cache_returns.h. A row that is no longer in the window gets return 0 and a missing address. */
typedef struct gpur_cache_returns_args {
    const gpur_cache_state *state;
    const gpur_window *window;
    const unsigned char *ring; /* (C) rows, `pitch` bytes apart */
    int64_t pitch, capacity;
    gpur_cache_entry *entry; /* (S) */
    float *taken;            /* (S) Q(s, a), and then, if writes_errors, |L - Q(s, a)| or
                                GPUR_CACHE_NO_ERROR; NULL: neither is needed */
    const uint8_t *greedy;   /* (S) for Watkins's returns; NULL: Peng's */
    int64_t blocks, length;  /* S / L; L */
    int32_t reward, terminated, truncated, previous, discount; /* offsets of the fields in a row; -1: there is none */
    gpur_lane_rings lanes; /* state NULL: there are none. Else the rows are theirs; ring, pitch, capacity and the
                              offsets have no use, and one of which no transition can be made is not there */
    float gamma;           /* the discount without a field for it */
    int32_t rule;          /* GPUR_RETURNS_* */
    int32_t truncation_terminates, writes_errors;
    int32_t n_step;
    float lambda, error_bound;
} gpur_cache_returns_args;

/* The median of the errors, without missing entries: of an even number of them the mean of the two in the middle. One
 * block. */
typedef struct gpur_cache_median_args {
    gpur_cache_state *state;
    const float *error; /* (S) 0 or more, or GPUR_CACHE_NO_ERROR */
    int64_t size;
} gpur_cache_median_args;

/*
 * Draws a batch of entries. A pure function of (seed, train step, refresh, cache).
 *
 * With draw 0, draw number k since the refresh takes entry perm(k mod S) of permutation k / S. With draw 1 each is
 * uniform, or, with `error`, accepted with a probability in proportion to its weight 1 + p, 1 or 1 - p, or 0 for a
 * missing entry, and otherwise drawn again.
 */
typedef struct gpur_cache_draw_args {
    const gpur_cache_state *state;
    const gpur_train_state *train;
    const gpur_cache_entry *entry; /* (S) */
    const float *error;            /* (S) NULL: all entries have the same weight */
    int64_t *id;                   /* (B) out: -1 for a missing entry */
    float *value;                  /* (B) out: the return */
    int32_t *index;                /* (B) out: the entry. With the next three NULL: its row comes from the replay */
    float *weight;                 /* (B) out: 1, or 0 for a missing entry */
    void *action;                  /* (B) out: int32, or int64 if action_is_int64 */
    const int32_t *cache_action;   /* (S) */
    uint64_t seed;
    int64_t size, batch;
    int32_t draw, action_is_int64;
} gpur_cache_draw_args;

/* Copies observations between the cache and a batch. */
typedef struct gpur_cache_copy_args {
    const gpur_cache_state *state;
    unsigned char *cache, *batch; /* (S), (B) observations, `units` x 16 bytes apart and long */
    const int32_t *index;         /* (B) the entries that are copied to the batch; NULL: the batch is copied to the
                                     chunk's entries, up to S */
    int64_t size, rows, units;    /* S; B */
} gpur_cache_copy_args;
