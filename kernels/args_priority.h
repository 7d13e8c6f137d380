/* SPDX-License-Identifier: MIT */
/* Argument structs of the kernels of prioritized replay. Axes: B batch, C capacity, N updates. */
#pragma once

#include <stdint.h>

#include "kernels/args_replay.h"

#define GPUR_PRIORITY_KERNEL_LIST(X)                                                                                   \
    X(priority_sample)                                                                                                 \
    X(priority_weights)                                                                                                \
    X(priority_gather)                                                                                                 \
    X(priority_update)                                                                                                 \
    X(priority_insert_evict)                                                                                           \
    X(priority_evict)                                                                                                  \
    X(priority_settle)                                                                                                 \
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

/* The leaf of p = 2^octave: 2^26 in the tree by which rows are sampled, 2^16 in the one by which they are evicted. The
 * largest priority of the window is near 2^octave. It has the largest leaf of the first tree, and in the second one,
 * whose alpha is below 0, the smallest. */
#define GPUR_LEAF_ONE 67108864.0
#define GPUR_EVICT_LEAF_ONE 65536.0

/* A leaf of the largest priority that is more than 2^5 times as large or as small as at octave = log2 of that priority
 * makes the tree be computed anew with that octave. So the leaf is within 2^20 and 2^32 for alphas of up to 1. */
#define GPUR_LEAF_DRIFT 5.0

/* The tree's state beside its nodes. It is in device memory, so that a captured step needs no host. Floats from 0 on
 * sort like their bits. */
typedef struct gpur_priority_state {
    float alpha;
    int32_t octave;           /* the scale of all leaves, see gpur_tree */
    uint32_t largest;         /* bits of the largest priority in the window when it was settled last; 0: none */
    uint32_t ever;            /* bits of the largest priority ever given, at least 1 */
    uint32_t pending_max;     /* bits of the largest priority of the rows that are being inserted */
    uint32_t pending_missing; /* 1 while rows are being inserted of which some have no valid priority; else 0 */
    uint32_t arrived;         /* blocks that have ended, of a launch whose last block has more to do; else 0 */
    uint32_t unused;
    int64_t largest_slot; /* where the largest priority was found last */
    int64_t updates, stale, invalid;
} gpur_priority_state;

/* The sum tree. Leaf s belongs to slot s of the ring: round((p / 2^octave)^alpha one) for its priority p, at least 1,
 * or 0 where nothing can be sampled; `one` is GPUR_LEAF_ONE or GPUR_EVICT_LEAF_ONE. Leaves are integers, so a node is
 * exactly the sum of its children, whatever the order of updates. */
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
    uint32_t *bound;                      /* of each node, level by level (gpur_tree_bounds): bits of a number that no
                                             priority below it exceeds, and no bound of its children; that of the root
                                             is the largest priority once the tree is settled
                                             (kernels/priority/settle.h). NULL: not stored */
    gpur_priority_state *state;
    int64_t *turn; /* (C) of each slot; see kernels/lib/turn.h. NULL: the oldest rows are evicted */
    int64_t capacity;
    int32_t levels;
    int32_t evicts;     /* 1: the tree by which rows are evicted. Its leaf of a row with p = 0 is the largest */
    int32_t first_ever; /* 1: a row without a priority gets the largest one ever given; 0: that of the window */
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

/* w = (N P)^-beta with P = leaf / total, divided by the largest w of the batch or of the memory, or not at all
 * [Schaul et al. 2016, section 3.4]. w is 1 where the leaf is 0, and 0 where there is no row. */
typedef struct gpur_priority_weights_args {
    gpur_tree tree;
    const int64_t *rows;  /* (1) N, the rows that could have been sampled, in device memory */
    const int64_t *id;    /* (B) of the gather; -1: no row */
    const uint32_t *leaf; /* (B) */
    float *weight;        /* (B) out */
    int64_t batch;
    const uint64_t *step; /* (1) step of the schedule of beta, in device memory; NULL: step_value */
    uint64_t step_value;
    float beta_first, beta_last;
    int64_t beta_begin, beta_steps;
    int32_t norm; /* GPUR_WEIGHT_NORM_* */
} gpur_priority_weights_args;

/* When a draw and gather by priority in one kernel computes the weights. */
enum {
    GPUR_WEIGH_EACH = 0, /* of each row as it is drawn: the norm is not that of the batch */
    GPUR_WEIGH_LAST = 1, /* of all rows, by the last block to end */
    GPUR_WEIGH_NOT = 2,  /* not at all: priority_weights follows */
};

/* Draws B rows by priority, copies them and computes their weights: what the kernels of its three members do one after
 * the other, and the same bits. */
typedef struct gpur_priority_gather_args {
    gpur_gather_args gather; /* by the ids of `sample`; of at most GPUR_WARP_UNITS units */
    gpur_priority_sample_args sample;
    gpur_priority_weights_args weights;
    int32_t weigh; /* GPUR_WEIGH_* */
} gpur_priority_gather_args;

/* Phases of an update, in order: each must be over before the next begins. */
enum {
    GPUR_PHASE_ALL = -1,   /* all phases, by one block; on a GPU also by several */
    GPUR_PHASE_CLEAR = 0,  /* sets the rows' leaves to 0 */
    GPUR_PHASE_RAISE = 1,  /* raises each leaf to the largest priority given for its row; on a GPU also settles, unless
                              EVICT must come first */
    GPUR_PHASE_EVICT = 2,  /* recomputes the rows' leaves in the tree by which rows are evicted */
    GPUR_PHASE_SETTLE = 3, /* finds the largest priority, and sets the scale; by one block */
    GPUR_PHASE_MIN = 4,    /* recomputes the minima of level 0; GPUR_PHASE_MIN + l: of level l */
};

/* Sets new priorities |p| + offset of rows given by id. If a row is given several times, its largest priority counts,
 * whatever the order. An id outside the window is stale: it is counted and ignored. A p that is NaN, or infinite with
 * the offset, is invalid, and is counted and ignored, too. */
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
 * ring's end. Evicted rows get leaves of 0. The leaves of inserted rows follow from the priorities stored in the rows,
 * plus the offset. A row without a priority (NaN, or -1) gets the one that the state says; so does a row with another
 * one that is negative or infinite, which is counted as invalid.
 *
 * With eviction by priority, only insert: row first_slot + n is in slot slots[(first_slot + n) mod C], and the rows may
 * wrap around the end of `slots`.
 */
typedef struct gpur_priority_insert_evict_args {
    gpur_tree tree;
    gpur_tree evict;           /* by which rows are evicted; leaf NULL: the oldest are */
    const int64_t *slots;      /* (C) NULL: the oldest rows are evicted */
    const unsigned char *ring; /* (C) rows, `pitch` bytes apart */
    int64_t pitch;
    int64_t first_slot, rows;
    int32_t field_offset; /* bytes from the start of a row to its priority, a float32; -1: the rows have none */
    int32_t insert;       /* 1: insert; 0: evict */
    float offset;
    gpur_window *window; /* (1) set to `next` when rows are evicted, in the same launch, so that no update comes in
                            between; NULL: no window is set */
    gpur_window next;
} gpur_priority_insert_evict_args;

/*
 * Settles the tree after rows were inserted or evicted, by one block.
 *
 * First, if `rows` is above 0 and rows contain priorities: of the rows of one publication, each without a valid
 * priority gets the largest one before it, of this publication's earlier rows or of the rows that were there. The
 * slots are as in gpur_priority_insert_evict_args, and may wrap around the ring's end.
 *
 * Then it finds the largest priority, and sets the scale of the leaves.
 */
typedef struct gpur_priority_settle_args {
    gpur_tree tree;
    gpur_tree evict;
    const int64_t *slots;
    const unsigned char *ring;
    int64_t pitch;
    int64_t first_slot, rows;
    int32_t field_offset;
    float offset;
} gpur_priority_settle_args;

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

/* What a rebuild computes. */
enum { GPUR_REBUILD_SUMS = 0, /* leaves, sums and minima */ GPUR_REBUILD_MIN = 1, GPUR_REBUILD_LARGEST = 2 };

/* Recomputes nodes `first` to first + count - 1 of a level from their children. At level -1 it recomputes leaves from
 * their priorities with `alpha` and `octave`, which become those of the state. */
typedef struct gpur_priority_rebuild_args {
    gpur_tree tree;
    int64_t first, count;
    const uint32_t *largest; /* (1) bits of the largest priority, from which the octave follows; NULL, or 0 there: it is
                                `octave` */
    int32_t level;
    int32_t what; /* GPUR_REBUILD_* */
    float alpha;
    int32_t octave;
} gpur_priority_rebuild_args;

/* Result of validating the whole tree. */
typedef struct gpur_tree_report {
    int64_t wrong;          /* sums, minima, bounds and leaves that are not what they should be */
    int64_t nonzero_leaves; /* non-zero leaves */
    int64_t raised;         /* leaves of 1 whose p^alpha is less than half of that */
    uint32_t min_priority;  /* bits of the smallest priority with a non-zero leaf; UINT32_MAX: none */
    uint32_t max_priority;  /* bits of the largest */
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
