/* SPDX-License-Identifier: MIT */
/*
 * The priorities of a replay's rows, on the device. Everything is enqueued on the consumer stream, so it keeps the
 * order of the window: a row has a leaf from its publishing to its leaving, and never otherwise. Nothing is read back
 * to decide anything. Not locked: the feed's users are, or have the consumer's turn.
 */
#ifndef GPUR_REPLAY_PRIORITY_SUM_TREE_H
#define GPUR_REPLAY_PRIORITY_SUM_TREE_H

#include "device/device.h"
#include "replay/schema.h"

typedef struct gpur_priorities {
    gpur_device *device; /* not held; NULL: the replay has no priorities, and nothing else here is set */
    unsigned char *memory, *pinned;
    gpur_tree tree;
    gpur_window *window;       /* (1) device: the feed's */
    const unsigned char *ring; /* the feed's */
    int64_t pitch;
    int32_t priority_offset; /* bytes from the start of a row to the priority that it brings; -1: none */
    int32_t norm;
    float offset;
    int64_t *ids;                    /* (max_batch) device: given by a caller */
    float *values;                   /* (max_batch) device: likewise, or asked for */
    uint32_t *leaf;                  /* (max_batch) device: of the rows drawn last */
    gpur_priority_found *found;      /* (1) device */
    float *host_values;              /* (2, max_batch) pinned: of the launches, alternately */
    gpur_priority_state *host_state; /* (1) pinned */
    gpur_priority_found *host_found; /* (1) pinned */
    uint64_t *host_total;            /* (1) pinned */
} gpur_priorities;

/* Nodes of a level above the leaves; level -1: the leaves. */
static inline int64_t gpur_tree_nodes(const gpur_tree *tree, int32_t level)
{
    const int shift = (level + 1) * GPUR_TREE_SHIFT;
    return (tree->capacity + ((int64_t)1 << shift) - 1) >> shift;
}

/* 1 where rows bring priorities of their own. */
static inline int gpur_priorities_brings(const gpur_priorities *priorities)
{
    return priorities->device && priorities->priority_offset >= 0;
}

/* What they take; 0 where config->prioritized is. */
int64_t gpur_priorities_device_bytes(const gpur_replay_config *checked);
int64_t gpur_priorities_pinned_bytes(const gpur_replay_config *checked);

/* `ring` and `window` are device memory; `stream` is waited for. A failure leaves what gpur_priorities_destroy
 * takes. */
gpur_status gpur_priorities_build(gpur_priorities *priorities, gpur_device *device, const gpur_replay_config *checked,
                                  const gpur_schema *schema, const void *ring, gpur_window *window,
                                  gpur_stream *stream);
void gpur_priorities_destroy(gpur_priorities *priorities);

/*
 * The device's window goes from `old` to `next`. Before it does, rows that are in the old one alone lose their leaves,
 * and leave the device's window with them, since an update that came between would give them new ones. After it, rows
 * that are in the next one alone get theirs; until then they are not drawn.
 */
gpur_status gpur_priorities_leave(const gpur_priorities *priorities, gpur_stream *stream, const gpur_window *old,
                                  const gpur_window *next);
gpur_status gpur_priorities_enter(const gpur_priorities *priorities, gpur_stream *stream, const gpur_window *old,
                                  const gpur_window *next);

/* 1 for GPUR_PRIORITIZED and GPUR_PRIORITIZED_PLAIN. */
int gpur_source_has_priorities(int32_t index_source);

/* A draw of `rows` rows into `id` and `leaf`, (rows) of device memory: the rest, which is of seed and step, is 0. */
gpur_priority_draw_args gpur_priorities_draw(const gpur_priorities *priorities, int32_t index_source, int64_t rows,
                                             int64_t *id, uint32_t *leaf);
gpur_grid gpur_priorities_draw_grid(const gpur_priorities *priorities, int64_t rows);

/* The weights of rows that were drawn so: what is of beta and its step is 0. */
gpur_priority_weights_args gpur_priorities_weights(const gpur_priorities *priorities, int64_t rows, const int64_t *id,
                                                   const uint32_t *leaf, float *weight);

/* New priorities by one block, as gpur_priorities_update enqueues them. */
gpur_priority_update_args gpur_priorities_change(const gpur_priorities *priorities, int64_t count, const int64_t *ids,
                                                 const float *values, int quiet);

/* New priorities, by arrays that the device can read. `quiet`: see gpur_priority_update_args. */
gpur_status gpur_priorities_update(const gpur_priorities *priorities, gpur_stream *stream, int64_t count,
                                   const int64_t *ids, const float *values, int quiet);

/* The state as it is behind what is enqueued, in host_state; waits for it. */
gpur_status gpur_priorities_look(const gpur_priorities *priorities, gpur_stream *stream);

/* Of a file: the rows of the window have their priorities, and no other slot has one; host_state is the state. */
gpur_status gpur_priorities_restore(const gpur_priorities *priorities, gpur_stream *stream, const gpur_window *window);

/* All leaves anew, and all sums. */
gpur_status gpur_priorities_rebuild(const gpur_priorities *priorities, gpur_stream *stream, float alpha);

/* Walks over all of the tree, and copies state, findings and total to host_*: wait for `stream` to read them, and
 * before the next walk. */
gpur_status gpur_priorities_survey(const gpur_priorities *priorities, gpur_stream *stream);

#endif
