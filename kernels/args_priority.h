/* SPDX-License-Identifier: MIT */
/* Kernels of prioritized replay. Axes: B batch, C capacity, N updates. */
#ifndef GPUR_ARGS_PRIORITY_H
#define GPUR_ARGS_PRIORITY_H

#include <stdint.h>

#include "kernels/args_replay.h"

#define GPUR_PRIORITY_KERNEL_LIST(X)                                                                                   \
    X(priority_draw)                                                                                                   \
    X(priority_weights)                                                                                                \
    X(priority_update)                                                                                                 \
    X(priority_range)                                                                                                  \
    X(priority_rebuild)                                                                                                \
    X(priority_survey)                                                                                                 \
    X(priority_read)

enum {
    GPUR_TREE_FAN = 128,  /* children of a node; a level is padded to a multiple of it */
    GPUR_TREE_SHIFT = 7,  /* 1 << 7 is 128 */
    GPUR_TREE_LEVELS = 5, /* above the leaves, at most: 128^5 leaves */
    GPUR_TREE_PART = 16,  /* children of a part of a node: leaves that fill a line of 64 bytes */
    GPUR_PART_SHIFT = 4,  /* 1 << 4 is 16 */
    GPUR_NODE_PARTS = GPUR_TREE_FAN / GPUR_TREE_PART,
};

/* A leaf of p^alpha = 1. */
#define GPUR_LEAF_ONE 1048576.0

/* What goes on beside the tree, in device memory, so that a recorded step needs no host. */
typedef struct gpur_priority_state {
    float alpha;
    uint32_t most;         /* bits of the largest priority so far: of floats from 0 on, the order is that of their
                              bits */
    uint32_t most_of_rows; /* the same of rows being published, until all of them have their leaves */
    uint32_t lacking;      /* 1 while rows are being published of which some bring no good priority; else 0 */
    int64_t updates, stale, invalid;
} gpur_priority_state;

/*
 * The sum tree: leaf s is slot s of the ring, round(p^alpha 2^20) for its priority p, at least 1, or 0 where nothing
 * can be drawn. Integers, so that a node is exactly the sum of its children, whatever the order of updates.
 */
typedef struct gpur_tree {
    uint32_t *leaf;                    /* (C) */
    float *raw;                        /* (C) p; 0 where the leaf is */
    uint64_t *sum[GPUR_TREE_LEVELS];   /* (levels) of 128 nodes below each; the last is one node, the total */
    uint64_t *part[GPUR_TREE_LEVELS];  /* (levels - 1) of 16 children each, of the nodes of each level below the root;
                                          the 8 parts of a node are a line. Kept where gpur_tree_has_parts says so */
    uint32_t *least[GPUR_TREE_LEVELS]; /* (levels) one less than the smallest leaf above 0, or UINT32_MAX where there is
                                          none; NULL: not kept */
    gpur_priority_state *state;
    int64_t capacity;
    int32_t levels;
} gpur_tree;

/*
 * Draws B rows with probability leaf / total: `stratified` row i from the i-th of B equal parts of the total, else each
 * from all of it [Schaul et al. 2016, section 3.3, appendix B.2.1]. A total of 0 draws uniformly, with leaf 0; an empty
 * window draws id -1. A pure function of (seed, purpose, step, tree, window, B).
 */
typedef struct gpur_priority_draw_args {
    gpur_tree tree;
    const gpur_window *window;
    int64_t *id;    /* (B) out */
    uint32_t *leaf; /* (B) out */
    int64_t batch;
    const uint64_t *step; /* (1) the draw's number in device memory; NULL: step_value */
    uint64_t step_value, seed;
    const uint64_t *unit; /* (B) which unit of the total each row is, for tests; NULL: by random numbers */
    uint32_t purpose;
    int32_t stratified;
} gpur_priority_draw_args;

/* What importance weights are divided by; the values are those of GPUR_WEIGHT_NORM_* in the public header. */
enum { GPUR_NORM_BATCH = 0, GPUR_NORM_MEMORY = 1, GPUR_NORM_NONE = 2 };

/* w = (N P)^-beta with P = leaf / total, divided by the batch's or the memory's largest [Schaul et al. 2016, section
 * 3.4]. 1 where the leaf is 0, and 0 where there is no row. */
typedef struct gpur_priority_weights_args {
    gpur_tree tree;
    const gpur_window *window;
    const int64_t *id;    /* (B) as gathered: -1 is no row */
    const uint32_t *leaf; /* (B) */
    float *weight;        /* (B) out */
    int64_t batch;
    const uint64_t *step; /* (1) of the schedule, in device memory; NULL: step_value */
    uint64_t step_value;
    float beta_first, beta_last;
    int64_t beta_begin, beta_steps;
    int32_t norm;
} gpur_priority_weights_args;

/* Parts of an update, in order: every part must be over before the next begins. */
enum {
    GPUR_UPDATE_ALL = -1,  /* all of them, by one block */
    GPUR_UPDATE_CLEAR = 0, /* leaves to 0 */
    GPUR_UPDATE_RAISE = 1, /* leaves to the largest priority given for them */
    GPUR_UPDATE_LEAST = 2, /* smallest leaves of level 0; + l: of level l */
};

/* New priorities p + offset of rows by id. Of duplicates the largest counts, whatever the order. An id outside of the
 * window is stale: counted and refused. So is a p that is NaN, negative or, with the offset, infinite. */
typedef struct gpur_priority_update_args {
    gpur_tree tree;
    const gpur_window *window;
    const int64_t *id;     /* (N) */
    const float *priority; /* (N) */
    int64_t count;
    float offset;
    int32_t part;  /* GPUR_UPDATE_* */
    int32_t quiet; /* 1: an empty window makes it a no-op that counts nothing */
} gpur_priority_update_args;

/*
 * Leaves of the slots `first_slot` to first_slot + rows - 1, which do not go round the ring's end: to 0 as the rows
 * leave the window, or (`enter`) to the priority that lies in the row, plus the offset; or to the largest before
 * these rows where there is none, or no good one, which is counted.
 *
 * `settle`, behind the ranges of one publication: `rows` rows from `first_slot` on, round the ring's end. A row without
 * a good priority of its own gets the largest that was given before it, by earlier rows of this publication, too; then
 * what the rows brought becomes the largest so far.
 */
typedef struct gpur_priority_range_args {
    gpur_tree tree;
    const unsigned char *ring; /* (C) rows, `pitch` bytes apart */
    int64_t pitch;
    int64_t first_slot, rows;
    int32_t priority_offset; /* bytes from the start of a row to its priority, a float32; -1: there is none */
    int32_t enter, settle;
    float offset;
    gpur_window *window; /* (1) the window that no longer has rows that leave: in the same launch, so that nothing comes
                            between; NULL: it stays */
    gpur_window next;
} gpur_priority_range_args;

/* Nodes `first` to first + count - 1 of a level from their children; level -1: leaves from their priorities, by
 * `alpha`, which becomes the state's. */
typedef struct gpur_priority_rebuild_args {
    gpur_tree tree;
    int64_t first, count;
    int32_t level;
    int32_t only_least; /* 1: sums stay */
    float alpha;
} gpur_priority_rebuild_args;

/* What a walk over all of the tree finds. */
typedef struct gpur_priority_found {
    int64_t wrong;    /* nodes that are not what their children make them, leaves that are not what they should be */
    int64_t drawable; /* leaves above 0 */
    uint32_t least;   /* bits of the smallest priority with such a leaf; UINT32_MAX: none */
    uint32_t reserved;
} gpur_priority_found;

/* One level of that walk; level -1: the leaves. */
typedef struct gpur_priority_survey_args {
    gpur_tree tree;
    const gpur_window *window;
    gpur_priority_found *found; /* (1) added to */
    int64_t count;              /* nodes of the level */
    int32_t level;
} gpur_priority_survey_args;

/* The priorities of rows by id; NaN where there is no such row. */
typedef struct gpur_priority_read_args {
    gpur_tree tree;
    const gpur_window *window;
    const int64_t *id; /* (N) */
    float *priority;   /* (N) out */
    int64_t count;
} gpur_priority_read_args;

#endif
