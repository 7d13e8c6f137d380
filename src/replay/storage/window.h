/* SPDX-License-Identifier: MIT */
/*
 * The window: which rows of the ring launches may read. An upload has three steps:
 *
 *   reserve   evicts the oldest rows from the window, so that launches enqueued from now on do not read them
 *   copy      runs on the copy stream, after the launches that may still read the evicted rows
 *   publish   makes the consumer stream wait for the copy, and extends the window by the new rows
 *
 * All decisions follow from the order of calls, never from what the device has finished, so a run can be repeated bit
 * by bit. Ids count up in the order of reservation. With GPUR_LAYOUT_FRAMES, frames are stored likewise: they are
 * uploaded with their rows, and a row is also evicted before a frame that it links to is overwritten.
 *
 * All functions except build and destroy require the window lock.
 */
#pragma once

#include "kernels/kernels.h"
#include "replay/storage/storage.h"

/* Uploaded rows that are not visible yet. */
typedef struct gpur_pending_rows {
    int64_t rows;
    gpur_event *copied; /* the caller's event after their last upload */
} gpur_pending_rows;

typedef struct gpur_window_state {
    const gpur_storage *storage;
    gpur_window *device; /* (1) device memory: the window that launches see */
    gpur_window sent;    /* what was sent to it last */
    gpur_window host;    /* what the next launch sees; sent to the device when that launch begins */
    int is_dirty;        /* 1: `host` has changed since it was last sent */

    gpur_pending_rows due_next_launch;  /* rows to be published before the next launch */
    gpur_pending_rows due_launch_after; /* before the launch after that one */
    int64_t refreshed;  /* rows that gpur_window_begin_refresh has published since the last launch began */
    int64_t frame_head; /* id of the next frame to be reserved */

    int64_t launches;       /* number of launches that have begun */
    int launch_open;        /* 1: a launch is being enqueued */
    int reads_unrecorded;   /* 1: launches were enqueued since `reads_done` was recorded */
    gpur_event *reads_done; /* on the consumer stream, after the launches that may read evicted rows */

    int64_t published, evicted; /* rows; statistics */
} gpur_window_state;

gpur_status gpur_window_build(gpur_window_state *window, const gpur_storage *storage);
void gpur_window_destroy(gpur_window_state *window); /* after both streams; also after a failed build */

/* The window that a launch would see if it began now. `staged`: rows that are claimed and not uploaded. */
gpur_window gpur_window_visible(const gpur_window_state *window, int64_t staged);

/* The slots reserved for an upload. */
typedef struct gpur_reservation {
    int64_t first_slot, first_frame;
    int after_next; /* 1: the copy waits for a launch, so the rows are published one launch later */
} gpur_reservation;

/* Reserves slots for 1 to block_rows rows and their frames, and evicts the rows that are in the way. It publishes
 * uploaded rows first in two cases: if fewer than gpur_kept_rows could remain visible, or if the rows to evict are
 * drawn by priority, which must choose among all rows that a launch would see. */
gpur_status gpur_window_reserve(gpur_window_state *window, int64_t rows, int64_t frames, gpur_reservation *to);

/* To be called when the copies into a reservation are enqueued and `copied` is recorded after them: decides which
 * launch publishes the rows. */
void gpur_window_uploaded(gpur_window_state *window, int64_t rows, const gpur_reservation *to, gpur_event *copied);

/* 1 if uploading `rows` rows now, in one or several uploads, may enqueue work on the consumer stream while another
 * thread is enqueuing a launch there, and so wait for that launch. */
int gpur_window_would_wait(const gpur_window_state *window, int64_t rows);

/* Makes all uploaded rows due before the next launch (instead of the one after it). */
void gpur_window_publish_all_next(gpur_window_state *window);

/* Publishes the rows that are due and sends the window to the device for a launch. Until gpur_window_end_launch, rows
 * leave the window only by eviction, which leaves at least gpur_kept_rows rows; if it could not, the uploaded rows are
 * published first. */
gpur_status gpur_window_begin_launch(gpur_window_state *window);

/* Like gpur_window_begin_launch, but publishes nothing and does not count as a launch. For work other than a caller's
 * sample or train step that may read the window, such as a learner's warm-up. */
gpur_status gpur_window_begin_without_publishing(gpur_window_state *window);

/* Publishes what the next launch would see and sends the window to the device, for calls that read rows without
 * sampling. Does not count as a launch: later launches see the same rows with and without it. `publish_all` 1: calls
 * gpur_window_publish_all_next first. */
gpur_status gpur_window_begin_refresh(gpur_window_state *window, int publish_all);

/* Ends what one of these three began. */
void gpur_window_end_launch(gpur_window_state *window);

/* To be called after gpur_window_begin_refresh: evicts the oldest rows until at most `keep` are visible. */
gpur_status gpur_window_trim(gpur_window_state *window, int64_t keep);

/* To be called after gpur_window_begin_refresh: declares that the ring now holds `count` rows from first_id on in their
 * slots. The caller sets their priorities with gpur_priorities_restore. */
gpur_status gpur_window_set(gpur_window_state *window, int64_t first_id, int64_t count);
