/* SPDX-License-Identifier: MIT */
/*
 * Which frames are still wanted: of the rows, in groups of so many ids, the oldest frame that each group links to. From
 * it follows which rows must have left before frames are overwritten; that depends on ids alone, not on how rows were
 * fed, so what a launch will see can be told beforehand.
 *
 * No row links back further than `reach` frames from the first one stored with it, so that a look at the groups may end
 * where that is near enough. Not locked: the intake is.
 */
#ifndef GPUR_REPLAY_STORAGE_FRAME_INDEX_H
#define GPUR_REPLAY_STORAGE_FRAME_INDEX_H

#include "device/device.h"
#include "replay/storage/layout.h"

typedef struct gpur_frame_group {
    int64_t oldest; /* frame that one of its rows links to; the next to be stored, if none links to any */
    int64_t first;  /* frame that would have been stored next when the group began */
} gpur_frame_group;

typedef struct gpur_frame_log {
    gpur_device *device; /* not held */
    int64_t group_rows, room, frames, reach, per_row;
    int64_t rows;             /* noted: the id of the next */
    int64_t place, in_group;  /* of the group that the last of them is in, and how many of it are noted */
    int64_t head;             /* frames stored by writers: the id of the next */
    gpur_frame_group *groups; /* (room) of group g in place g % room; NULL: packed */
} gpur_frame_log;

/* `rows`: most rows between the oldest visible one and the one noted last. */
gpur_status gpur_frame_log_build(gpur_frame_log *log, gpur_device *device, const gpur_linking *linking, int64_t rows);
void gpur_frame_log_destroy(gpur_frame_log *log); /* tolerates half-built */

/* The next row, one after the other: frames `head` and following will be stored with it, and it links to none before
 * `oldest`. */
void gpur_frame_log_note(gpur_frame_log *log, int64_t head, int64_t oldest);

/* How many groups the rows from `first` to the last one are in, that of the next row included where it has begun. */
int64_t gpur_frame_log_count(const gpur_frame_log *log, int64_t first, int64_t rows);

/* Copies these groups; the first is that of row `first`. */
void gpur_frame_log_get(const gpur_frame_log *log, int64_t first, gpur_frame_group *groups);

/* Takes them in place of all: of rows up to `rows`, behind which `head` frames have been stored. */
void gpur_frame_log_set(gpur_frame_log *log, int64_t first, int64_t rows, int64_t head, const gpur_frame_group *groups);

/* 1 when they can be such groups. */
int gpur_frame_log_is_good(const gpur_frame_log *log, int64_t first, int64_t rows, int64_t head,
                           const gpur_frame_group *groups);

/* Of the rows from `first` on: the first that may stay when the frames before `head` are all in the ring. */
int64_t gpur_frame_log_keep(const gpur_frame_log *log, int64_t first, int64_t head);

#endif
