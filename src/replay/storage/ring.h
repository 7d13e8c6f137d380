/* SPDX-License-Identifier: MIT */
/*
 * The ring: rows in device memory, and how new rows get into it while consumers sample. An upload has three steps:
 *
 *   reserve   evicts the oldest rows from the window, so that launches enqueued from now on do not read them
 *   copy      runs on the copy stream, after the launches that may still read the evicted rows
 *   publish   makes the consumer stream wait for the copy, and extends the window by the new rows
 *
 * All decisions follow from the order of calls, never from what the device has finished, so a run can be repeated bit
 * by bit. Ids count up in the order of reservation; the row with an id lies in slot id % capacity. With GPUR_LINKED,
 * frames are stored likewise: they are uploaded with their rows, and a row is also evicted before a frame that it links
 * to is overwritten. All functions except build and destroy require the ingest lock.
 */
#ifndef GPUR_REPLAY_STORAGE_RING_H
#define GPUR_REPLAY_STORAGE_RING_H

#include "device/device.h"
#include "replay/storage/frame_index.h"
#include "replay/plan.h"
#include "replay/priority/sum_tree.h"

typedef struct gpur_feed {
    gpur_device *device;       /* not retained */
    const gpur_schema *schema; /* of the ring's rows */
    int64_t capacity, max_batch;
    int64_t secure;     /* rows that always fit at the same time, see gpur_storage */
    int64_t block_rows; /* the most rows of one upload */
    int32_t clipped;    /* index of the field that is clipped, or -1; staged rows have been clipped already */
    float reward_clip;
    unsigned char *ring;   /* (capacity, pitch) device */
    unsigned char *frames; /* (frame_slots, frame_pitch) device; NULL: GPUR_PACKED, the next three are not used */
    int64_t frame_slots, frame_pitch;
    int64_t frame_head;        /* id of the next frame to be reserved */
    const gpur_frame_log *log; /* the ingest's */
    gpur_window *window;       /* (1) device: the window that launches see */
    unsigned char *block;      /* (block_rows, pitch) device: a block to be scattered; NULL under GPUR_FEED_COPY */
    gpur_stream *consumer;     /* sampling and training */
    gpur_stream *copier;       /* uploads */
    gpur_event *read;        /* on the consumer stream, after the launches that may read evicted rows */
    gpur_event *from_arrays; /* on the copy stream: all arrays uploaded so far have been read */

    gpur_priorities priorities; /* of the rows in the device's window */

    gpur_window mirror; /* what the next launch sees; sent to the device when that launch begins */
    gpur_window shown;  /* what was sent to the device last */
    int64_t soon, late; /* uploaded rows to be published before the next launch; before the one after it */
    int64_t looked;     /* rows that gpur_feed_begin_look has published since the last launch began */
    gpur_event *soon_copied, *late_copied; /* the callers' events after those uploads */
    int64_t launches;                      /* launches that have begun */
    int launching;                         /* 1: a launch is being enqueued */
    int unread;                            /* 1: launches were enqueued since the event for evicted rows was recorded */
    int stale;                             /* 1: the host's window has changed since it was last sent */

    int64_t published, evicted, blocks, bytes; /* statistics */
} gpur_feed;

/* `storage` must outlive the ring and must not move. */
gpur_status gpur_feed_build(gpur_feed *feed, gpur_device *device, const gpur_replay_config *config,
                            const gpur_storage *storage, const gpur_replay_plan *plan);
void gpur_feed_destroy(gpur_feed *feed); /* waits for enqueued work; also after a failed build */

/* One upload: 1 to block_rows rows and the frames stored with them, in pinned memory. */
typedef struct gpur_feed_part {
    const unsigned char *rows; /* (count, pitch) */
    int64_t count;
    const unsigned char *frames; /* (frame_count, frame_pitch) */
    int64_t frame_count;
} gpur_feed_part;

/* Enqueues an upload into the rings and records `copied` after it. The same event may be used for a later upload, too,
 * because copies finish in the order in which they were enqueued. */
gpur_status gpur_feed_rows(gpur_feed *feed, const gpur_feed_part *part, gpur_event *copied);

/* Of `held` rows from the oldest visible one on: how many must be evicted so that the others fit, together with all
 * frames up to head - 1. */
int64_t gpur_feed_leaving(const gpur_feed *feed, int64_t held, int64_t head);

/* Like gpur_feed_rows, from one array per field, each (count, ...) in device memory. Clips rewards. */
gpur_status gpur_feed_arrays(gpur_feed *feed, const void *const *fields, int64_t count);

/* Like gpur_feed_rows, from rows as callers pack them, in device memory. Does not clip rewards. */
gpur_status gpur_feed_packed(gpur_feed *feed, const void *rows, int64_t count);

/* 1 if uploading `count` rows now, in one or several uploads, may enqueue work on the consumer stream while another
 * thread is enqueuing a launch there, and so wait for that launch. */
int gpur_feed_meets_launch(const gpur_feed *feed, int64_t count);

/* Makes all uploaded rows due before the next launch (instead of the one after it). */
void gpur_feed_hasten(gpur_feed *feed);

/* Publishes the rows that are due and sends the window to the device for a launch. Until gpur_feed_end_launch, rows
 * leave the window only by eviction, which leaves at least max_batch rows; if it could not, the uploaded rows are
 * published first. */
gpur_status gpur_feed_begin_launch(gpur_feed *feed);

/* Like gpur_feed_begin_launch, but publishes nothing and does not count as a launch. For work other than a caller's
 * sample or train step that may read the window, such as a learner's warm-up. */
gpur_status gpur_feed_begin_turn(gpur_feed *feed);

/* Publishes what the next launch would see and sends the window to the device, for calls that read rows without
 * sampling. Does not count as a launch: later launches see the same rows with and without it. `hasten` 1: calls
 * gpur_feed_hasten first. */
gpur_status gpur_feed_begin_look(gpur_feed *feed, int hasten);

/* To be called after gpur_feed_begin_look: declares that the ring now holds the rows first_id to first_id + count - 1
 * in their slots. The caller sets their priorities with gpur_priorities_restore. */
gpur_status gpur_feed_set_window(gpur_feed *feed, int64_t first_id, int64_t count);

/* Ends what gpur_feed_begin_launch, gpur_feed_begin_turn or gpur_feed_begin_look began. */
void gpur_feed_end_launch(gpur_feed *feed);

#endif
