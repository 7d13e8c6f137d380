/* SPDX-License-Identifier: MIT */
/*
 * Batches and where their memory comes from. The pool lives as long as its replay or any of its batches; memory of a
 * released batch is used again for one of as many rows or fewer, behind whatever still reads it, and given up when one
 * of more rows is made.
 */
#ifndef GPUR_REPLAY_SAMPLER_BATCH_H
#define GPUR_REPLAY_SAMPLER_BATCH_H

#include "device/device.h"
#include "gpureplay/batch.h"
#include "replay/sampler/gather.h"
#include "replay/plan.h"

#include <pthread.h>
#include <stdatomic.h>

typedef struct gpur_pool {
    gpur_device *device; /* held */
    gpur_schema schema;
    int32_t links; /* of a row; 0: packed */
    int64_t max_batch;
    pthread_mutex_t lock;
    gpur_stream *reader;  /* for gpur_batch_read */
    gpur_stream *returns; /* CUDA: waits for the streams that batches were handed to */
    struct gpur_batch *idle;
    struct gpur_batch *unasked; /* released while a stream that may read them was being captured */
    int64_t alive, made;
    int closed; /* the replay has gone: what comes back is freed */
} gpur_pool;

struct gpur_batch {
    gpur_pool *pool;
    gpur_batch *next; /* in the idle list */
    unsigned char *memory;
    gpur_batch_layout layout; /* for `rows` rows */
    int64_t rows, count;      /* allocated, drawn */
    atomic_int references;
    gpur_event *filled;              /* on the consumer stream */
    gpur_event *returned;            /* on `returns`: the last user's reads */
    gpur_drawing drawing;            /* that fills all of it; of no rows until it has been made */
    void *readers[GPUR_MAX_READERS]; /* (reader_count) users' streams that may read it; under the pool's lock */
    int32_t reader_count;
    int was_handed_out; /* `returned` must be waited for */
};

gpur_status gpur_pool_create(gpur_device *device, const gpur_schema *schema, int32_t links, int64_t max_batch,
                             gpur_pool **pool);

/* The replay's end: the pool goes with the last batch. Takes NULL. */
void gpur_pool_close(gpur_pool *pool);

/* A batch with one reference for `count` rows, to be filled on `stream`, which is made to wait for its last readers. */
gpur_status gpur_pool_take(gpur_pool *pool, int64_t count, gpur_stream *stream, gpur_batch **batch);

/* The same without taking memory: the batch is NULL where none is idle that is large enough. */
gpur_status gpur_pool_take_idle(gpur_pool *pool, int64_t count, gpur_stream *stream, gpur_batch **batch);

/* The same for a batch whose one reference is the caller's: it keeps its memory and its count. GPUR_WOULD_BLOCK: one of
 * the streams that may read it cannot be waited for. */
gpur_status gpur_pool_take_again(gpur_batch *batch, gpur_stream *stream);

/* From now on the user's stream may read the batch. Refuses one stream too many. */
gpur_status gpur_pool_add_reader(gpur_batch *batch, void *native);

void gpur_pool_count(gpur_pool *pool, int64_t *alive, int64_t *made);

static inline void *gpur_batch_array(const gpur_batch *batch, int32_t array)
{
    return batch->memory + batch->layout.arrays[array].offset;
}

#endif
