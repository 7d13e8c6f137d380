/* SPDX-License-Identifier: MIT */
/* Argument structs of the kernels of hindsight. Axes: C capacity, N new rows, B batch, G numbers of a goal. */
#pragma once

#include "gpureplay/hindsight.h"
#include "kernels/args_replay.h"

#define GPUR_HINDSIGHT_KERNEL_LIST(X)                                                                                  \
    X(hindsight_find)                                                                                                  \
    X(hindsight_relabel)

enum {
    GPUR_HINDSIGHT_ORDERS = 3,         /* the order of rows has this many entries for each row of the capacity */
    GPUR_MAX_HINDSIGHT_ROWS = 1 << 30, /* the most rows whose entries an uint32 counts */
};

/* Where a row lies in its episode. It counts for the row whose id has these lower 32 bits, in an episode that has
 * ended. */
typedef struct gpur_hindsight_place {
    uint32_t stamp;  /* the lower 32 bits of the row's id */
    uint32_t at;     /* the entry of the order with the row's id; those of its episode follow each other, around the
                        end */
    uint32_t index;  /* rows of the episode before this one */
    uint32_t length; /* rows of the episode; 0: the row is in none that has ended */
} gpur_hindsight_place;

/*
 * The rows of ended episodes in their order. An episode gets entries when its end is seen, of those of its rows that
 * are in the window then. Entries are overwritten after 3 C others. A row in the window has its own entry and all
 * entries of its episode that were written: while it is there, rows of ids up to C below and C above it get entries,
 * each one once, and its episode has at most C.
 */
typedef struct gpur_hindsight_index {
    gpur_hindsight_place *places; /* (C) of the rows in the slots */
    uint32_t *order;              /* (3 C) the lower 32 bits of ids */
    uint64_t *used;               /* (1) entries that were ever written */
} gpur_hindsight_index;

/* Finds the episodes that end with one of N new rows, or before the first row of an episode that is among them. */
typedef struct gpur_hindsight_find_args {
    const gpur_window *window;
    const unsigned char *ring; /* (C) rows, `pitch` bytes apart */
    int64_t pitch, capacity;
    int64_t first_id, rows; /* the first of the new rows, all of which are in the window; N */
    gpur_hindsight_index index;
    int32_t previous_offset;                     /* bytes from the start of a row: an int64 of any alignment */
    int32_t terminated_offset, truncated_offset; /* a byte; -1: there is none */
    int32_t has_flags; /* 1: the last row of an episode is the only one that can be terminated or truncated. 0: only
                          `previous` tells where an episode ended */
} gpur_hindsight_find_args;

/* A field of the batch: row b is at `to` + b x pitch. NULL: it is not wanted. */
typedef struct gpur_hindsight_output {
    unsigned char *to;
    int64_t pitch;
} gpur_hindsight_output;

/*
 * Gives rows of a gathered batch new goals: row b with probability k / (k + 1), if its episode has ended. A pure
 * function of (seed, purpose, step, window, ring, B): the random numbers of row b are of lane b.
 */
typedef struct gpur_hindsight_relabel_args {
    const gpur_window *window;
    const unsigned char *ring; /* (C) rows, `pitch` bytes apart */
    int64_t pitch, capacity;
    gpur_hindsight_index index;
    int64_t batch;        /* B */
    const int64_t *ids;   /* (B) -1: there is no row */
    const uint64_t *step; /* (1) number of this sample, in device memory; NULL: step_value */
    uint64_t step_value, seed;
    gpur_hindsight_output desired, next_desired; /* (G) float32 */
    gpur_hindsight_output reward, discount;      /* float32 */
    gpur_hindsight_output terminated;            /* a byte */
    uint8_t *relabeled;                          /* (B) or NULL: 1 if the row has a new goal, else 0 */
    uint32_t purpose;
    int32_t achieved_offset, next_achieved_offset; /* bytes from the start of a row */
    int32_t goal_size;                             /* G */
    int32_t strategy, n_sampled_goal, reward_kind; /* as in gpur_hindsight_config */
    int32_t ends_at_goal, n_step;
    float threshold, reward_reached, reward_missed;
    float gamma, reward_clip; /* of the replay; reward_clip 0: rewards are not clipped */
} gpur_hindsight_relabel_args;
