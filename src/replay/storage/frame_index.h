/* SPDX-License-Identifier: MIT */
/*
 * Tracks which frames are still referenced: for each group of group_rows consecutive row ids, the oldest frame that any
 * of its rows links to. Before a frame slot is reused, every group that links to its frame must be evicted. Groups
 * depend on ids only, not on how rows were uploaded, so the host can predict the window of a launch.
 *
 * No row links to a frame more than gpur_frame_layout.reach ids before the first frame stored with it, so a search over
 * the groups can end at the first group that is young enough. All functions except build and destroy require the window
 * lock.
 */
#pragma once

#include "device/device.h"
#include "replay/storage/layout.h"

typedef struct gpur_frame_group {
    int64_t oldest; /* the smallest frame id that its rows link to, at most `first` */
    int64_t first;  /* id that the next frame had when the group began */
} gpur_frame_group;

typedef struct gpur_frame_index {
    gpur_device *device; /* not retained */
    int64_t group_rows, room, frames, reach, frames_per_row;
    int64_t rows;               /* recorded; the id of the next one */
    int64_t position, in_group; /* index in `groups` of the last recorded row's group, and that group's recorded rows */
    int64_t head;               /* frames stored by writers; the id of the next one */
    gpur_frame_group *groups;   /* (room) group g at index g % room; NULL with GPUR_LAYOUT_ROWS */
} gpur_frame_index;

/* `rows`: how many rows the index must cover. Does nothing with GPUR_LAYOUT_ROWS. */
gpur_status gpur_frame_index_build(gpur_frame_index *index, gpur_device *device, const gpur_frame_layout *frame_layout,
                                   int64_t rows);
void gpur_frame_index_destroy(gpur_frame_index *index); /* also after a failed build */

/* Records the next row. The first frame stored with it has id `head`; it links to no frame with an id below `oldest`.
 */
void gpur_frame_index_record(gpur_frame_index *index, int64_t head, int64_t oldest);

/* Number of groups of the rows `first` to rows - 1, an incomplete last group included. If first == rows, an
 * incomplete group is still counted. */
int64_t gpur_frame_index_count(const gpur_frame_index *index, int64_t first, int64_t rows);

/* Copies the groups from that of row `first` to that of the last recorded row. */
void gpur_frame_index_get(const gpur_frame_index *index, int64_t first, gpur_frame_group *groups);

/* Replaces everything by `groups`, those of rows `first` to rows - 1, with which frames up to head - 1 were stored. */
void gpur_frame_index_set(gpur_frame_index *index, int64_t first, int64_t rows, int64_t head,
                          const gpur_frame_group *groups);

/* 1 if gpur_frame_index_get could have made these groups, for rows `first` to rows - 1 and frames up to head - 1: ids
 * are in range, and no row links to a frame that has been overwritten. */
int gpur_frame_index_is_valid(const gpur_frame_index *index, int64_t first, int64_t rows, int64_t head,
                              const gpur_frame_group *groups);

/* Returns the first row id, `first` or higher, that may stay visible once all frames up to head - 1 are stored. */
int64_t gpur_frame_index_first_live_row(const gpur_frame_index *index, int64_t first, int64_t head);
