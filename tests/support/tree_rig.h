/* SPDX-License-Identifier: MIT */
/* A sum tree on a device, without a replay: priorities of the slots of a ring that nobody fills. */
#ifndef GPUR_SUPPORT_TREE_RIG_H
#define GPUR_SUPPORT_TREE_RIG_H

#include "replay/priority/sum_tree.h"

typedef struct tree_rig {
    gpur_device *device;
    gpur_stream *stream;
    gpur_priorities priorities;
    gpur_window *window; /* device */
    int64_t capacity, room;
    int64_t *ids;    /* (room) device */
    float *values;   /* (room) device */
    uint32_t *leaf;  /* (room) device */
    uint64_t *units; /* (room) device */
} tree_rig;

/* A leaf for each slot, and a window that shows them all, slot 0 with id 0. `room`: most rows of a call. 1 when all of
 * it could be made; close it in any case. */
int tree_open(tree_rig *rig, gpur_device *device, int64_t capacity, int32_t weight_norm, float alpha, float offset,
              int64_t room);
void tree_close(tree_rig *rig);

gpur_status tree_show(tree_rig *rig, gpur_window window);

/* New priorities, as a replay would; or by one part of an update, in a shape of launch of its own. */
gpur_status tree_update(tree_rig *rig, int64_t count, const int64_t *ids, const float *priorities);
gpur_status tree_update_part(tree_rig *rig, int64_t count, const int64_t *ids, const float *priorities, int32_t part,
                             gpur_grid grid);

/* Leaves as given: with alpha 1 and offset 0 a priority of leaf / 2^20 is kept exactly, up to 24 bits. */
gpur_status tree_set_leaves(tree_rig *rig, int64_t first_slot, int64_t count, const uint32_t *leaves);

/* Which rows these units of the total are, and their leaves (may be NULL). `grid` {0, 0}: the good one. */
gpur_status tree_find(tree_rig *rig, int64_t count, const uint64_t *units, int64_t *ids, uint32_t *leaves,
                      gpur_grid grid);

/* A draw by random numbers. */
gpur_status tree_draw(tree_rig *rig, int32_t index_source, int64_t count, uint64_t seed, uint64_t step, int64_t *ids,
                      uint32_t *leaves);

/* Of the whole tree: how much is wrong (-1 when that could not be had), and its total. */
int64_t tree_wrong(tree_rig *rig, uint64_t *total);

/* The leaf of every slot: (capacity). */
gpur_status tree_leaves(tree_rig *rig, uint32_t *leaves);

#endif
