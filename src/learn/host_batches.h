/* SPDX-License-Identifier: MIT */
/*
 * Batches that a caller keeps in RAM: pinned buffers on the host, two blocks on the device, and the recorded step over
 * each block. A copy up runs on a stream of its own, so that it overlaps with the step before.
 *
 *   buffer   free -> out (gpur_rows_take) -> free (gpur_rows_give); whoever takes it waits until it has been copied up
 *   block    read behind the copy to it. The copy need not wait for the step that read the block before: as many steps
 *            may be in flight as there are blocks, and the turn has waited for the one that is too many
 */
#ifndef GPUR_LEARN_HOST_BATCHES_H
#define GPUR_LEARN_HOST_BATCHES_H

#include "learn/train_step.h"

#include <pthread.h>

enum { GPUR_ROW_BLOCKS = 2 }; /* launches in flight: see gpur_consumer_begin */

/* Where the rows of one step lie on the device. */
typedef struct gpur_row_block {
    unsigned char *rows;    /* (B, row_bytes) */
    gpur_step_rows context; /* of the recording */
    gpur_recording *train;
} gpur_row_block;

typedef struct gpur_rows {
    gpur_device *device;
    int32_t count; /* buffers; 0: no such batches, and nothing else is there */
    int64_t batch, row_bytes;
    int64_t pitch; /* bytes from buffer to buffer */
    gpur_stream *copier;
    pthread_mutex_t mutex; /* of `next` and `is_out` */
    int has_mutex;
    int32_t next; /* in turn */
    int32_t is_out[GPUR_MAX_HOST_BATCHES];
    unsigned char *pinned; /* (count, pitch) */
    gpur_event *copied[GPUR_MAX_HOST_BATCHES];
    gpur_window *window; /* (1) device: rows 0 to B - 1 */
    int64_t *ids;        /* (B) device: 0 to B - 1 */
    gpur_row_block block[GPUR_ROW_BLOCKS];
    int64_t steps; /* enqueued: their blocks alternate */
} gpur_rows;

/* Does nothing when `config` asks for no buffers. A failure leaves what gpur_rows_close takes. */
gpur_status gpur_rows_open(gpur_rows *rows, gpur_device *device, const gpur_learner_config *config,
                           const gpur_schema *schema);
void gpur_rows_close(gpur_rows *rows);
void gpur_rows_place(gpur_rows *rows, gpur_arena *arena);

/* Once placed, and once `step` has run: fills in what is constant, and records. Waits for `stream`; `scratch` (B) is
 * pinned memory to use meanwhile. */
gpur_status gpur_rows_connect(gpur_rows *rows, const gpur_step *step, gpur_stream *stream, int64_t *scratch);

int64_t gpur_rows_pinned_bytes(const gpur_rows *rows);

/* The next buffer in turn that is free, now out. GPUR_WOULD_BLOCK: none is. Any thread. */
gpur_status gpur_rows_take(gpur_rows *rows, int32_t *index);
void gpur_rows_give(gpur_rows *rows, int32_t index);
void *gpur_rows_buffer(const gpur_rows *rows, int32_t index);

/* Which buffer is at `given`; refused, or -1 for a place that is in none of them, when it is not one that is out. */
gpur_status gpur_rows_find(gpur_rows *rows, const void *given, int32_t *index);

/* The next buffer, with a copy of what is at `given`. */
gpur_status gpur_rows_copy(gpur_rows *rows, const void *given, int32_t *index);

/* In a turn of its own: enqueues the copy up, and makes `stream` wait for it. What it should replay now. */
gpur_status gpur_rows_bring(gpur_rows *rows, int32_t index, gpur_stream *stream, gpur_recording **train);

#endif
