/* SPDX-License-Identifier: MIT */
/* Argument structs of the kernels of sequences. Axes: S sequences, L rows of a sequence, C capacity. */
#pragma once

#include "kernels/args_lanes.h"

#include <stdint.h>

#define GPUR_SEQUENCES_KERNEL_LIST(X) X(sequences)

enum {
    GPUR_SEQUENCE_DRAWS = 64,     /* last rows that are tried for a sequence before it counts as missing */
    GPUR_MAX_SEQUENCES = 1 << 25, /* sequences of one launch: each draw has a random number of its own */
};

/* How the last row of a sequence is chosen. */
enum {
    GPUR_LAST_UNIFORM = 0,     /* uniformly over the window */
    GPUR_LAST_INDEPENDENT = 1, /* by priority; uniformly if the sum of all priorities is 0 */
    GPUR_LAST_STRATIFIED = 2,  /* the same, but the first draw of sequence s is from the s-th of S equal strata */
    GPUR_LAST_GIVEN = 3,       /* by its id */
};

/*
 * Finds S sequences of up to L successive transitions of an environment: chooses the last row of each and follows the
 * field `previous` (kernels/lib/previous.h) back through the window. A sequence of fewer than `min_length` rows is
 * drawn again, at most GPUR_SEQUENCE_DRAWS times in all (GPUR_LAST_GIVEN: once); then it is missing. All rows with so
 * many predecessors are equally likely to be the last, or likely in proportion to their priorities: also with strata,
 * because draws after the first are from all of the sum. A pure function of (seed, purpose, step, tree, window, ring,
 * S).
 */
typedef struct gpur_sequences_args {
    const gpur_window *window;
    const unsigned char *ring; /* (C) rows, `pitch` bytes apart */
    int64_t pitch, capacity;
    int64_t count, length; /* S, up to GPUR_MAX_SEQUENCES; L */
    int64_t min_length;    /* 1 to L */
    const uint64_t *step;  /* (1) number of this sample, in device memory; NULL: step_value */
    uint64_t step_value, seed;
    const int64_t *last_ids; /* (S) for GPUR_LAST_GIVEN, `last_pitch` numbers apart; may be in `id`, where each is then
                                the first of its sequence */
    int64_t last_pitch;
    int64_t *id;       /* (S, L) the oldest row first; -1 behind the last row */
    uint32_t *leaf;    /* (S, L) or NULL: the leaf of the sequence's last row; 0 for a missing sequence, and if the last
                          row was not chosen by priority */
    uint8_t *mask;     /* (S, L) or NULL: 1 if there is a row, else 0 */
    uint8_t *is_first; /* (S, L) or NULL: 1 if the row is the first of its episode, else 0 */
    gpur_lane_rings
        lanes;      /* state NULL: there are none. Else the replay is of lanes: the rows that are whole count alone,
                              and what `previous` says follows from them; ring, pitch and previous_offset have no use */
    gpur_tree tree; /* for GPUR_LAST_INDEPENDENT and GPUR_LAST_STRATIFIED */
    int32_t previous_offset; /* bytes from the start of a row to `previous`, an int64 of any alignment */
    int32_t last;            /* GPUR_LAST_* */
    int32_t across_episodes; /* 0: a sequence begins at the first row of an episode at the earliest */
    uint32_t purpose;
} gpur_sequences_args;
