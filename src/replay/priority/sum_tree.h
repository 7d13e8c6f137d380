/* SPDX-License-Identifier: MIT */
/*
 * The priorities of a replay's rows: a sum tree in device memory, and the launches of its kernels. All work is enqueued
 * on the consumer stream, in the order in which the window changes: a row has a leaf from when it is published until it
 * is evicted, and at no other time. No decision needs a value from the device. Callers hold the window lock or the
 * consumer lock.
 */
#pragma once

#include "device/device.h"
#include "replay/schema.h"

typedef struct gpur_priorities {
    gpur_device *device; /* not retained; NULL: the replay has no priorities, and no other member is set */
    unsigned char *memory, *pinned;
    gpur_tree tree;
    gpur_tree evict;  /* GPUR_EVICT_BY_PRIORITY: by which rows are evicted; priority, turn and capacity are those of
                        `tree`. leaf NULL: the oldest are */
    int64_t *slots;   /* (capacity) device: the n-th row of all, counted from 0, is in slot slots[n mod capacity]. Then
                        the slot of the n-th evicted row is written there, and so given to the row that is capacity
                        rows later. NULL: the oldest rows are evicted, whose slots follow each other anyway */
    int64_t *victims; /* (GPUR_EVICT_ROWS) device: rows drawn to be evicted, and their leaves */
    uint32_t *victim_leaves;
    uint64_t seed; /* of these draws */
    float evict_alpha;
    gpur_window *window;       /* (1) device: the ring's */
    const unsigned char *ring; /* device: the ring's rows */
    int64_t pitch;
    int32_t field_offset; /* bytes from the start of a row to its priority; -1: rows have none */
    int32_t norm;
    float offset;
    int64_t *ids;                          /* (max_batch) device: a caller's ids */
    float *values;                         /* (max_batch) device: priorities from or for a caller */
    uint32_t *leaf;                        /* (max_batch) device: leaves of the rows sampled last */
    gpur_tree_report *report;              /* (2) device: reports of a validation, of `tree` and of `evict` */
    float *host_values;                    /* (2, max_batch) pinned: launch n uses row n % 2 */
    gpur_priority_state *host_state;       /* (1) pinned */
    gpur_priority_state *host_evict_state; /* (1) pinned; only `octave` is used */
    gpur_tree_report *host_report;         /* (2) pinned */
    uint64_t *host_total;                  /* (1) pinned */
} gpur_priorities;

/* Number of nodes of a level above the leaves; level -1 is the leaves. */
static inline int64_t gpur_tree_nodes(const gpur_tree *tree, int32_t level)
{
    const int shift = (level + 1) * GPUR_TREE_SHIFT;
    return (tree->capacity + ((int64_t)1 << shift) - 1) >> shift;
}

/* 1 if rows contain their first priority (a field "priority"). */
static inline int gpur_priorities_from_rows(const gpur_priorities *priorities)
{
    return priorities->device && priorities->field_offset >= 0;
}

/* Bytes that the priorities need; 0 if config->prioritized is 0. */
int64_t gpur_priorities_device_bytes(const gpur_replay_config *checked);
int64_t gpur_priorities_pinned_bytes(const gpur_replay_config *checked);

/* `ring` and `window` are device memory. Waits for `stream`. Does nothing if config->prioritized is 0. After a failure
 * call gpur_priorities_destroy. */
gpur_status gpur_priorities_build(gpur_priorities *priorities, gpur_device *device, const gpur_replay_config *checked,
                                  const gpur_schema *schema, const void *ring, gpur_window *window,
                                  gpur_stream *stream);
void gpur_priorities_destroy(gpur_priorities *priorities);

/*
 * To be called when the device's window changes from `old` to `next`. gpur_priorities_evict, before the change, zeroes
 * the leaves of the evicted rows and shrinks the device's window in the same kernel launch, so that no update in
 * between can give such a row a leaf again. gpur_priorities_insert, after the change, gives the new rows their leaves;
 * until then they are not sampled.
 *
 * With GPUR_EVICT_BY_PRIORITY a window's first_id is the number of rows evicted so far, and any rows of it leave. The
 * host need not know which: the device keeps their slots in `slots`.
 */
gpur_status gpur_priorities_evict(const gpur_priorities *priorities, gpur_stream *stream, const gpur_window *old,
                                  const gpur_window *next);
gpur_status gpur_priorities_insert(const gpur_priorities *priorities, gpur_stream *stream, const gpur_window *old,
                                   const gpur_window *next);

/* Settles the tree after rows first to first + rows - 1 have been inserted, or after others have been evicted. */
gpur_status gpur_priorities_settle(const gpur_priorities *priorities, gpur_stream *stream, int64_t first, int64_t rows);

/* Arguments for sampling `rows` rows, `stratified` or not, into `id` and `leaf`, (rows) device memory. Seed, step and
 * purpose are 0, for the caller to set. */
gpur_priority_sample_args gpur_priorities_sample_args(const gpur_priorities *priorities, int stratified, int64_t rows,
                                                      int64_t *id, uint32_t *leaf);
gpur_grid gpur_priorities_sample_grid(const gpur_priorities *priorities, int64_t rows);

/* Arguments for the importance weights of rows sampled that way. Step and beta are 0, for the caller to set. */
gpur_priority_weights_args gpur_priorities_weight_args(const gpur_priorities *priorities, int64_t rows,
                                                       const int64_t *id, const uint32_t *leaf, float *weight);

/* Arguments for an update by one thread block, as in gpur_priorities_update. */
gpur_priority_update_args gpur_priorities_update_args(const gpur_priorities *priorities, int64_t count,
                                                      const int64_t *ids, const float *values, int skip_if_empty);

/* Enqueues an update of priorities from arrays that the device can read. `skip_if_empty`: see
 * gpur_priority_update_args. */
gpur_status gpur_priorities_update(const gpur_priorities *priorities, gpur_stream *stream, int64_t count,
                                   const int64_t *ids, const float *values, int skip_if_empty);

/* Reads the states of both trees, after all enqueued work, into host_state and host_evict_state. Waits for them. */
gpur_status gpur_priorities_read_state(const gpur_priorities *priorities, gpur_stream *stream);

/* In place of an octave: the one that the largest priority in the window asks for. */
enum { GPUR_OCTAVE_OF_LARGEST = INT32_MIN };

enum { GPUR_MAX_OCTAVE = 150 }; /* float32 goes from 2^-149 to 2^128 */

/* After a load has written the priorities of the window's rows, and the states to host_state and host_evict_state:
 * clears the other slots, sends the state to the device and rebuilds the trees. */
gpur_status gpur_priorities_restore(const gpur_priorities *priorities, gpur_stream *stream, const gpur_window *window);

/* Recomputes all leaves, with exponent `alpha`, and all sums. */
gpur_status gpur_priorities_set_alpha(const gpur_priorities *priorities, gpur_stream *stream, float alpha);

/* Validates the whole tree, and copies the state, the report and the total to the host_* members. Wait for `stream`
 * before reading these and before the next validation. */
gpur_status gpur_priorities_validate(const gpur_priorities *priorities, gpur_stream *stream);
