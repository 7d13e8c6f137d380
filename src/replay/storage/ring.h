/* SPDX-License-Identifier: MIT */
/*
 * Reserve, copy, publish: how rows get into the ring while draws go on.
 *
 *   reserve   the oldest rows leave the window, so that launches enqueued from now on do not read them
 *   copy      behind the launches that still may; on the copy stream
 *   publish   the consumer stream waits for the copy, and the window takes the rows in
 *
 * Everything is decided by the order of calls, never by what is done already, so a run can be repeated bit by bit. Ids
 * count up in the order of reserving; the row of an id lies in slot id % capacity. Frames of a linked replay likewise:
 * they come with their rows, and rows leave also when a frame that they link to is to be overwritten. Not locked: the
 * intake is.
 */
#ifndef GPUR_REPLAY_STORAGE_RING_H
#define GPUR_REPLAY_STORAGE_RING_H

#include "device/device.h"
#include "replay/storage/frame_index.h"
#include "replay/plan.h"
#include "replay/priority/sum_tree.h"

typedef struct gpur_feed {
    gpur_device *device;       /* not held */
    const gpur_schema *schema; /* of the ring's rows */
    int64_t capacity, max_batch;
    int64_t secure;     /* rows that are sure to have room at once */
    int64_t block_rows; /* most rows of one reserve */
    int32_t clipped;    /* the field that is clipped on the way to the ring, or -1; from staging it comes clipped */
    float reward_clip;
    unsigned char *ring;   /* (capacity, pitch) device */
    unsigned char *frames; /* (frame_slots, frame_pitch) device; NULL: packed, and none of the next three counts */
    int64_t frame_slots, frame_pitch;
    int64_t frame_head;        /* frames reserved: the id of the next */
    const gpur_frame_log *log; /* the intake's */
    gpur_window *window;       /* (1) device */
    unsigned char *block;      /* (block_rows, pitch) device; NULL under GPUR_FEED_COPY */
    gpur_stream *consumer;     /* draws and training */
    gpur_stream *copier;
    gpur_event *read;        /* launches that may read the rows that leave are done */
    gpur_event *from_arrays; /* arrays fed so far have been read */

    gpur_priorities priorities; /* of the rows in the device's window */

    gpur_window mirror; /* what the next launch sees; told to the device when that launch begins */
    gpur_window shown;  /* what the device has been told */
    int64_t soon, late; /* rows copied, to be published before the next launch, before the one after it */
    int64_t looked;     /* rows that gpur_feed_begin_look has published since the last launch began */
    gpur_event *soon_copied, *late_copied; /* borrowed */
    int64_t launches;                      /* begun */
    int launching;                         /* a launch is being enqueued */
    int unread;                            /* launches were enqueued since `read` was recorded */
    int stale;                             /* the mirror has changed since the device's window was set */

    int64_t published, evicted, blocks, bytes; /* statistics */
} gpur_feed;

/* `storage` must stay where it is. */
gpur_status gpur_feed_build(gpur_feed *feed, gpur_device *device, const gpur_replay_config *config,
                            const gpur_storage *storage, const gpur_replay_plan *plan);
void gpur_feed_destroy(gpur_feed *feed); /* waits for its work; tolerates half-built */

/* What goes together: rows, 1 to block_rows of them, and the frames that were stored with them, in pinned memory. */
typedef struct gpur_feed_part {
    const unsigned char *rows; /* (count, pitch) */
    int64_t count;
    const unsigned char *frames; /* (frame_count, frame_pitch) */
    int64_t frame_count;
} gpur_feed_part;

/* Enqueues the way of a part into the rings. `copied` is recorded behind it; recording it again for a later call is
 * fine, since copies end in the order of their enqueuing. */
gpur_status gpur_feed_rows(gpur_feed *feed, const gpur_feed_part *part, gpur_event *copied);

/* Of `held` rows from the oldest visible one on, how many must leave until the frames before `head` are in the ring,
 * too. */
int64_t gpur_feed_leaving(const gpur_feed *feed, int64_t held, int64_t head);

/* The same from one array a field, each (count, ...) in device memory. */
gpur_status gpur_feed_arrays(gpur_feed *feed, const void *const *fields, int64_t count);

/* The same from rows as callers pack them, in device memory, where nothing is clipped. */
gpur_status gpur_feed_packed(gpur_feed *feed, const void *rows, int64_t count);

/* 1 when feeding `count` rows now, at once or in parts, may enqueue on the consumer's stream beside a launch that is
 * being enqueued there, and so wait for it. */
int gpur_feed_meets_launch(const gpur_feed *feed, int64_t count);

/* All that was fed is due before the next launch. */
void gpur_feed_hasten(gpur_feed *feed);

/* Publishes what is due and sets the device's window for a launch; until gpur_feed_end_launch, the window may only lose
 * rows that leave, and keeps max_batch of them. */
gpur_status gpur_feed_begin_launch(gpur_feed *feed);

/* The same without publishing, for work that is no draw of anybody's but may read the window, as a warm-up does. */
gpur_status gpur_feed_begin_turn(gpur_feed *feed);

/* Publishes what the next launch would see and sets the device's window, for calls that read rows and draw nothing. It
 * counts as no launch: later launches see the same rows with and without it. `hasten` 1 calls gpur_feed_hasten first.
 */
gpur_status gpur_feed_begin_look(gpur_feed *feed, int hasten);

/* Within it: the ring now holds the rows first_id to first_id + count - 1, in their slots. Their priorities are
 * somebody else's to set: gpur_priorities_restore. */
gpur_status gpur_feed_set_window(gpur_feed *feed, int64_t first_id, int64_t count);

void gpur_feed_end_launch(gpur_feed *feed);

#endif
