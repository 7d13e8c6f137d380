/* SPDX-License-Identifier: MIT */
/*
 * The ring: the stored rows, and with GPUR_LAYOUT_FRAMES the stored frames, in device memory, and the uploads into
 * them. The row with an id lies in slot id % capacity, whatever rows are evicted. An upload reserves slots
 * (storage/window.h), which evicts the rows that are in the way, and copies on the copy stream; the rows become visible
 * when the window is extended over them.
 *
 * All functions except build and destroy require the window lock.
 */
#pragma once

#include "replay/plan.h"
#include "replay/storage/window.h"

typedef struct gpur_ring {
    const gpur_storage *storage;
    gpur_window_state *window;
    unsigned char *rows;   /* (capacity, pitch) device */
    unsigned char *frames; /* (frame_slots, frame_pitch) device; NULL: GPUR_LAYOUT_ROWS, the next two are not used */
    int64_t frame_slots, frame_pitch;
    unsigned char *scatter_block; /* (block_rows, pitch) device: rows to be scattered; NULL: they are copied */
    int32_t clipped_field;        /* index of the field that is clipped, or -1; staged rows have been clipped already */
    gpur_event *arrays_read;      /* on the copy stream: all arrays uploaded so far have been read */
    int64_t uploads, bytes;       /* statistics */
} gpur_ring;

/* Allocates the ring that the layout describes. */
gpur_status gpur_ring_build(gpur_ring *ring, const gpur_storage *storage, gpur_window_state *window,
                            const gpur_replay_plan *plan);
void gpur_ring_destroy(gpur_ring *ring); /* after both streams; also after a failed build */

/* One upload: 1 to block_rows rows and the frames stored with them, in pinned memory. */
typedef struct gpur_upload {
    const unsigned char *rows; /* (count, pitch) */
    int64_t count;
    const unsigned char *frames; /* (frame_count, frame_pitch) */
    int64_t frame_count;
} gpur_upload;

/* Enqueues an upload into the rings and records `copied` after it. The same event may be used for a later upload, too,
 * because copies finish in the order in which they were enqueued. */
gpur_status gpur_ring_upload(gpur_ring *ring, const gpur_upload *upload, gpur_event *copied);

/* Like gpur_ring_upload, from one array per field, each (count, ...) in device memory. Clips rewards. */
gpur_status gpur_ring_upload_arrays(gpur_ring *ring, const void *const *fields, int64_t count);

/* Like gpur_ring_upload, from rows as callers pack them, in device memory. Does not clip rewards. */
gpur_status gpur_ring_upload_packed(gpur_ring *ring, const void *rows, int64_t count);
