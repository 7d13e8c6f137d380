/* SPDX-License-Identifier: MIT */
/* Argument structs of the kernels of prioritized replay. Axes: B batch, C capacity, N updates. */
#pragma once

#include <stdint.h>

#include "kernels/args_replay.h"

#define GPUR_PRIORITY_KERNEL_LIST(X)                                                                                   \
    X(priority_sample)                                                                                                 \
    X(priority_weights)                                                                                                \
    X(priority_update)                                                                                                 \
    X(priority_insert_evict)                                                                                           \
    X(priority_evict)                                                                                                  \
    X(priority_rebuild)                                                                                                \
    X(priority_validate)                                                                                               \
    X(priority_read)

enum {
    GPUR_TREE_FAN = 128,    /* children of a node; every level is padded to a multiple of it */
    GPUR_TREE_SHIFT = 7,    /* 1 << 7 is 128 */
    GPUR_TREE_LEVELS = 5,   /* levels above the leaves, at most: 128^5 leaves */
    GPUR_TREE_SEGMENT = 16, /* children of a segment of a node: 16 leaves fill a cache line of 64 bytes */
    GPUR_SEGMENT_SHIFT = 4, /* 1 << 4 is 16 */
    GPUR_NODE_SEGMENTS = GPUR_TREE_FAN / GPUR_TREE_SEGMENT,
};

/* The leaf of p^alpha = 1: 2^20. */
#define GPUR_LEAF_ONE 1048576.0

/* The tree's state beside its nodes. It is in device memory, so that a captured step needs no host. */
typedef struct gpur_priority_state {
    float alpha;
    uint32_t max_priority;    /* bits of the largest priority so far; floats from 0 on sort like their bits */
    uint32_t pending_max;     /* the same for the rows that are being inserted, until all of them have their leaves */
    uint32_t pending_missing; /* 1 while rows are being inserted of which some have no valid priority; else 0 */
    int64_t updates, stale, invalid;
} gpur_priority_state;

/* The sum tree. Leaf s belongs to slot s of the ring: round(p^alpha 2^20) for its priority p, at least 1, or 0 where
 * nothing can be sampled. Leaves are integers, so a node is exactly the sum of its children, whatever the order of
 * updates. */
typedef struct gpur_tree {
    uint32_t *leaf;                       /* (C) */
    float *priority;                      /* (C) p; 0 where the leaf is 0 */
    uint64_t *sum[GPUR_TREE_LEVELS];      /* (levels) sums of 128 nodes of the level below; the last level is the
                                             total */
    uint64_t *segment[GPUR_TREE_LEVELS];  /* (levels - 1) segment sums of the nodes of each level below the root, 16
                                             children each; the 8 segments of a node fill a cache line. Stored only
                                             where gpur_tree_has_segments says so */
    uint32_t *min_leaf[GPUR_TREE_LEVELS]; /* (levels) minimum over the non-zero leaves below a node, minus 1; UINT32_MAX
                                             if all are 0. NULL: not stored */
    gpur_priority_state *state;
    int64_t *turn; /* (C) of each slot; see kernels/lib/turn.h. NULL: the oldest rows are evicted */
    int64_t capacity;
    int32_t levels;
    int32_t evicts; /* 1: the tree by which rows are evicted. Its leaf of a row with p = 0 is the largest */
} gpur_tree;

/*
 * Samples B rows with probability leaf / total [Schaul et al. 2016, eq. 1]. `stratified`: row i comes from the i-th
 * of B equal strata of the total; else every row comes from all of it [section 3.3, appendix B.2.1]. If the total is
 * 0, rows are uniform over the window and their leaf is 0; if the window is empty, every id is -1. A pure function of
 * (seed, purpose, step, tree, window, B).
 */
typedef struct gpur_priority_sample_args {
    gpur_tree tree;
    const gpur_window *window;
    int64_t *id;    /* (B) out */
    uint32_t *leaf; /* (B) out */
    int64_t batch;
    const uint64_t *step; /* (1) number of this sample, in device memory; NULL: step_value */
    uint64_t step_value, seed;
    const uint64_t *mass; /* (B) mass of each row, below the total, for tests; NULL: by random numbers */
    uint32_t purpose;
    int32_t stratified;
} gpur_priority_sample_args;

/* Norm by which importance weights are divided; the values are those of GPUR_WEIGHT_NORM_* in the public header. */
enum { GPUR_NORM_BATCH = 0, GPUR_NORM_MEMORY = 1, GPUR_NORM_NONE = 2 };

/* w = (N P)^-beta with P = leaf / total, divided by the largest w of the batch or of the memory, or not at all
 * [Schaul et al. 2016, section 3.4]. w is 1 where the leaf is 0, and 0 where there is no row. */
typedef struct gpur_priority_weights_args {
    gpur_tree tree;
    const gpur_window *window;
    const int64_t *id;    /* (B) of the gather; -1: no row */
    const uint32_t *leaf; /* (B) */
    float *weight;        /* (B) out */
    int64_t batch;
    const uint64_t *step; /* (1) step of the schedule of beta, in device memory; NULL: step_value */
    uint64_t step_value;
    float beta_first, beta_last;
    int64_t beta_begin, beta_steps;
    int32_t norm;
} gpur_priority_weights_args;

/* Phases of an update, in order: each must be over before the next begins. */
enum {
    GPUR_PHASE_ALL = -1,  /* all phases, by one block */
    GPUR_PHASE_CLEAR = 0, /* sets the rows' leaves to 0 */
    GPUR_PHASE_RAISE = 1, /* raises each leaf to the largest priority given for its row */
    GPUR_PHASE_EVICT = 2, /* recomputes the rows' leaves in the tree by which rows are evicted */
    GPUR_PHASE_MIN = 3,   /* recomputes the minima of level 0; GPUR_PHASE_MIN + l: of level l */
};

/* Sets new priorities p + offset of rows given by id. If a row is given several times, its largest priority counts,
 * whatever the order. An id outside the window is stale: it is counted and ignored. A p that is NaN, negative, or
 * infinite with the offset is invalid, and is counted and ignored, too. */
typedef struct gpur_priority_update_args {
    gpur_tree tree;
    gpur_tree evict; /* by which rows are evicted; leaf NULL: the oldest are */
    const gpur_window *window;
    const int64_t *id;     /* (N) */
    const float *priority; /* (N) */
    int64_t count;
    float offset;
    int32_t phase;         /* GPUR_PHASE_* */
    int32_t skip_if_empty; /* 1: with an empty window the kernel does nothing and counts nothing */
} gpur_priority_update_args;

/*
 * Inserts rows into the tree, or evicts them. The slots first_slot to first_slot + rows - 1 do not wrap around the
 * ring's end. Three modes:
 *
 * Evict (both flags 0): the leaves become 0.
 *
 * Insert: the leaves follow from the priorities stored in the rows, plus the offset. A row without a priority, or
 * with an invalid one, which is counted, gets the largest priority from before these rows.
 *
 * Fold the maximum, after all inserts of one publication. Here the `rows` slots from first_slot on may wrap around
 * the ring's end. Each row without a valid priority gets the largest one given before it, by earlier rows of this
 * publication included. Then the largest priority so far is raised to that of these rows.
 *
 * With eviction by priority, only insert and fold: row first_slot + n is in slot slots[(first_slot + n) mod C], and the
 * rows may wrap around the end of `slots`.
 */
typedef struct gpur_priority_insert_evict_args {
    gpur_tree tree;
    gpur_tree evict;           /* by which rows are evicted; leaf NULL: the oldest are */
    const int64_t *slots;      /* (C) NULL: the oldest rows are evicted */
    const unsigned char *ring; /* (C) rows, `pitch` bytes apart */
    int64_t pitch;
    int64_t first_slot, rows;
    int32_t field_offset;     /* bytes from the start of a row to its priority, a float32; -1: the rows have none */
    int32_t insert, fold_max; /* 1, 0: insert; 0, 0: evict; 0, 1: fold the maximum */
    float offset;
    gpur_window *window; /* (1) set to `next` when rows are evicted, in the same launch, so that no update comes in
                            between; NULL: no window is set */
    gpur_window next;
} gpur_priority_insert_evict_args;

enum { GPUR_EVICT_ROWS = 256 }; /* the most rows that one launch evicts */

/*
 * Evicts draw.batch rows, at most GPUR_EVICT_ROWS: successive draws without replacement, each with probability leaf /
 * total among the rows that are left [Horgan et al. 2018, appendix D]. By one block. The slot of the n-th row goes to
 * slots[(first + n) mod C].
 */
typedef struct gpur_priority_evict_args {
    gpur_tree tree;                 /* by which rows are sampled */
    gpur_priority_sample_args draw; /* from the tree by which rows are evicted; `id` and `leaf` are scratch memory */
    int64_t *slots;                 /* (C) */
    int64_t first;
    gpur_window *window; /* (1) set to `next` */
    gpur_window next;
} gpur_priority_evict_args;

/* Recomputes nodes `first` to first + count - 1 of a level from their children. At level -1 it recomputes leaves from
 * their priorities with `alpha`, which becomes the state's alpha. */
typedef struct gpur_priority_rebuild_args {
    gpur_tree tree;
    int64_t first, count;
    int32_t level;
    int32_t only_min; /* 1: recomputes only the minima, not the sums */
    float alpha;
} gpur_priority_rebuild_args;

/* Result of validating the whole tree. */
typedef struct gpur_tree_report {
    int64_t wrong;          /* sums, minima and leaves that are not what they should be */
    int64_t nonzero_leaves; /* non-zero leaves */
    uint32_t min_priority;  /* bits of the smallest priority with a non-zero leaf; UINT32_MAX: none */
    uint32_t reserved;
} gpur_tree_report;

/* Validates one level; level -1: the leaves. */
typedef struct gpur_priority_validate_args {
    gpur_tree tree;
    const gpur_window *window;
    gpur_tree_report *report; /* (1) the results of this level are added */
    int64_t count;            /* nodes of the level */
    int32_t level;
} gpur_priority_validate_args;

/* Reads the priorities of rows by id; NaN where the window has no such row. */
typedef struct gpur_priority_read_args {
    gpur_tree tree;
    const gpur_window *window;
    const int64_t *id; /* (N) */
    float *priority;   /* (N) out */
    int64_t count;
} gpur_priority_read_args;
