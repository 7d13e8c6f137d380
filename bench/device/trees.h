/* SPDX-License-Identifier: MIT */
/* A sum tree of priorities without a ring beside it: what draws and updates read and write. */
#ifndef BENCH_DEVICE_TREES_H
#define BENCH_DEVICE_TREES_H

#include "bench/device/counter.h"
#include "replay/priority/sum_tree.h"

enum { TREE_DRAWS = 32, TREE_MOST = 4096 };

typedef struct tree {
    gpur_priorities priorities;
    gpur_stream *stream;
    gpur_window *window; /* (1) device memory: every slot has a row */
    step_counter counter;
    int64_t *id, *ids;      /* (TREE_MOST) drawn, (TREE_DRAWS, TREE_MOST) to be updated */
    uint32_t *leaf;         /* (TREE_MOST) drawn */
    float *values;          /* (TREE_DRAWS, TREE_MOST) new priorities of `ids` */
    int64_t entries, batch; /* of a draw, or of an update */
} tree;

/* Random priorities, the same on every device: multiples of 2^-20 and alpha 1, so that leaves are exact. */
void tree_open(tree *t, gpur_device *device, int64_t entries);
void tree_close(tree *t);

/* gpur_record_fns; `context` is the tree: TREE_DRAWS draws, each with other random numbers, or updates of other rows.
 */
gpur_status tree_draw(void *context, gpur_stream *stream);
gpur_status tree_update(void *context, gpur_stream *stream);

#endif
