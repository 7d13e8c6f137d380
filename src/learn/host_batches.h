/* SPDX-License-Identifier: MIT */
/*
 * Host batches: batches that a caller keeps in host memory. There are pinned buffers on the host, two batches in device
 * memory, and a graph of a train step for each of these. A copy to the device runs on a stream of its own, so that it
 * overlaps with the previous step.
 *
 *   buffer         free -> acquired (gpur_host_batches_acquire) -> free (gpur_host_batches_release).
 *                  gpur_host_batches_acquire waits until the last copy from the buffer is done
 *   device batch   read by a step, after the copy to it. The copy need not wait for the step that read the device
 *                  batch before: gpur_consumer_begin allows no more launches in flight than there are device batches
 */
#pragma once

#include "learn/train_step.h"

#include <pthread.h>

enum { GPUR_DEVICE_BATCHES = 2 }; /* device batches: the launches in flight, see gpur_consumer_begin */

/* A device batch: the rows of one step, and the graph that trains on them. */
typedef struct gpur_device_batch {
    unsigned char *rows; /* (B, row_bytes) */
    gpur_batch_source source;
} gpur_device_batch;

typedef struct gpur_host_batches {
    gpur_device *device;
    const gpur_train_step *step;
    int32_t count; /* buffers; 0: there are no host batches, and no other member is used */
    int64_t batch, row_bytes;
    int64_t pitch; /* bytes from one buffer to the next */
    gpur_stream *copier;
    pthread_mutex_t mutex;                   /* protects `next` and `acquired` */
    int32_t next;                            /* buffer that is tried first, round-robin */
    int32_t acquired[GPUR_MAX_HOST_BATCHES]; /* 1: acquired */
    unsigned char *pinned;                   /* (count, pitch) */
    gpur_event *copied[GPUR_MAX_HOST_BATCHES];
    gpur_window *window; /* (1) device: rows 0 to B - 1 */
    int64_t *ids;        /* (B) device: 0 to B - 1 */
    gpur_device_batch device_batches[GPUR_DEVICE_BATCHES];
    int64_t steps; /* enqueued; they use the device batches alternately */
} gpur_host_batches;

/* The learner's part that is a gpur_host_batches. Its `start` waits for the stream. */
extern const gpur_part gpur_host_batches_part;

/* Acquires the next free buffer, round-robin; gpur_host_batches_release releases it. GPUR_WOULD_BLOCK: none is free.
 * Any thread. */
gpur_status gpur_host_batches_acquire(gpur_host_batches *batches, int32_t *index);
void gpur_host_batches_release(gpur_host_batches *batches, int32_t index);
void *gpur_host_batches_buffer(const gpur_host_batches *batches, int32_t index);

/* Finds the buffer that starts at `given`; -1 if `given` is in no buffer. Refuses an address in a buffer that is not
 * its start, and a buffer that is not acquired. */
gpur_status gpur_host_batches_find(gpur_host_batches *batches, const void *given, int32_t *index);

/* Acquires the next free buffer and copies a batch in host memory into it. */
gpur_status gpur_host_batches_acquire_copy(gpur_host_batches *batches, const void *given, int32_t *index);

/* Requires the consumer lock. Enqueues the copy of a buffer to the device, and makes `stream` wait for it. `train` gets
 * the graph to be launched on `stream` then. */
gpur_status gpur_host_batches_upload(gpur_host_batches *batches, int32_t index, gpur_stream *stream,
                                     gpur_graph **train);
