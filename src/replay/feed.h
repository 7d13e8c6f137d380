/* SPDX-License-Identifier: MIT */
/*
 * Reserve, copy, publish: how rows get into the ring while draws go on.
 *
 *   reserve   the oldest rows leave the window, so that launches enqueued from now on do not read them
 *   copy      behind the launches that still may; on the copy stream
 *   publish   the consumer stream waits for the copy, and the window takes the rows in
 *
 * Everything is decided by the order of calls, never by what is done already, so a run can be repeated bit by bit. Ids
 * count up in the order of reserving; the row of an id lies in slot id % capacity. Not locked: the intake is.
 */
#ifndef GPUR_REPLAY_FEED_H
#define GPUR_REPLAY_FEED_H

#include "device/device.h"
#include "replay/plan.h"

typedef struct gpur_feed {
    gpur_device *device;       /* not held */
    const gpur_schema *schema; /* the replay's */
    int64_t capacity, max_batch;
    int64_t block_rows; /* most rows of one reserve */
    int32_t clipped;    /* the field that is clipped on the way to the ring, or -1; from staging it comes clipped */
    float reward_clip;
    unsigned char *ring;   /* (capacity, pitch) device */
    gpur_window *window;   /* (1) device */
    unsigned char *block;  /* (block_rows, pitch) device; NULL under GPUR_FEED_COPY */
    gpur_stream *consumer; /* draws and training */
    gpur_stream *copier;
    gpur_event *read;        /* launches that may read the rows that leave are done */
    gpur_event *from_arrays; /* arrays fed so far have been read */

    gpur_window mirror; /* what the next launch sees; told to the device when that launch begins */
    int64_t soon, late; /* rows copied, to be published before the next launch, before the one after it */
    gpur_event *soon_copied, *late_copied; /* borrowed */
    int64_t launches;                      /* begun */
    int launching;                         /* a launch is being enqueued */
    int unread;                            /* launches were enqueued since `read` was recorded */
    int stale;                             /* the mirror has changed since the device's window was set */

    int64_t published, evicted, blocks, bytes; /* statistics */
} gpur_feed;

gpur_status gpur_feed_build(gpur_feed *feed, gpur_device *device, const gpur_replay_config *config,
                            const gpur_schema *schema, const gpur_replay_plan *plan);
void gpur_feed_destroy(gpur_feed *feed); /* waits for its work; tolerates half-built */

/* Enqueues the way of `count` rows, (count, pitch) in pinned memory, into the ring; 1 to block_rows. `copied` is
 * recorded behind it; recording it again for a later call is fine, since copies end in the order of their enqueuing. */
gpur_status gpur_feed_rows(gpur_feed *feed, const void *rows, int64_t count, gpur_event *copied);

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
void gpur_feed_end_launch(gpur_feed *feed);

#endif
