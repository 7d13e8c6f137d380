/* SPDX-License-Identifier: MIT */
/*
 * Host batches: batches that a caller keeps in host memory. There are pinned buffers on the host, two batches in device
 * memory, and a graph of a train step for each of these. A copy to the device runs on a stream of its own, so that it
 * overlaps with the previous step.
 *
 *   buffer         free -> acquired, when its last copy to the device is done -> free, when it is trained on or
 *                  released
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
