/* SPDX-License-Identifier: MIT */
/*
 * Batches, and the pool of their memory. The pool lives as long as its replay or any of its batches. The memory of a
 * released batch is reused for a batch of as many rows or fewer, after the work that still reads it. It is freed when a
 * larger batch is allocated.
 */
#pragma once

#include "device/device.h"
#include "gpureplay/batch.h"
#include "replay/sampler/gather.h"

#include <pthread.h>
#include <stdatomic.h>

enum { GPUR_MAX_ARRAYS = GPUR_MAX_FIELDS + 6 };

/* What the arrays of a batch depend on beside the schema. */
typedef struct gpur_batch_extent {
    int32_t links;         /* frame links of a row; 0: GPUR_LAYOUT_ROWS */
    int32_t has_hindsight; /* 1: there is an array of the rows with new goals */
} gpur_batch_extent;

/* The arrays of a batch: every field of the schema, then discount (unless it is a field), weight and id. If sequences
 * can be found in rows of the schema: then mask and is_first, which only batches of sequences fill. With hindsight:
 * then relabeled, which they do not fill. */
typedef struct gpur_batch_layout {
    gpur_field_info arrays[GPUR_MAX_ARRAYS]; /* (count) `offset` is from the start of the batch's memory */
    int32_t count;
    int32_t discount, weight, id; /* indices in `arrays` */
    int32_t mask, is_first;       /* likewise; -1 if there are none */
    int32_t relabeled;            /* likewise */
    int64_t links;                /* offset of the rows' frame links, (rows, links per row) uint32; 0 links: the end */
    int64_t bytes;                /* size of the whole batch */
} gpur_batch_layout;

/* Lays out a batch of `rows` rows. Every array is aligned to 256 bytes. */
gpur_batch_layout gpur_batch_layout_of(const gpur_schema *schema, gpur_batch_extent extent, int64_t rows);

typedef struct gpur_pool {
    gpur_device *device; /* retained */
    gpur_schema schema;
    gpur_batch_extent extent;
    int64_t max_batch;
    pthread_mutex_t lock;
    gpur_stream *read_stream;           /* for gpur_batch_read and gpur_batch_wait */
    gpur_stream *release_stream;        /* CUDA: waits for the callers' streams that read released batches */
    struct gpur_batch *idle;            /* released and reusable */
    struct gpur_batch *capture_pending; /* released while a stream that may read them was being captured */
    int64_t alive, made;
    int closed; /* 1: the replay is destroyed, and released batches are freed */
} gpur_pool;

struct gpur_batch {
    gpur_pool *pool;
    gpur_batch *next; /* in a list of the pool */
    unsigned char *memory;
    gpur_batch_layout layout; /* for `rows` rows */
    int64_t rows, count;      /* allocated; used */
    int64_t length;           /* rows of a sequence, which divides `count`; 0: a batch of single transitions */
    atomic_int references;
    gpur_event *filled;              /* on the consumer stream: the gather is done */
    gpur_event *reads_done;          /* on the pool's stream of released batches: the last reads are done */
    gpur_gather_plan gather_plan;    /* fills all arrays; has 0 rows until it is prepared */
    void *readers[GPUR_MAX_READERS]; /* (reader_count) callers' streams that may read it; under the pool's lock */
    int32_t reader_count;
    int pending_reads; /* 1: the last reads must be waited for */
};

gpur_status gpur_pool_create(gpur_device *device, const gpur_schema *schema, gpur_batch_extent extent,
                             int64_t max_batch, gpur_pool **pool);

/* Called when the replay is destroyed. The pool is freed with its last batch. NULL does nothing. */
void gpur_pool_close(gpur_pool *pool);

/* Gets a batch for `count` rows with one reference, idle or newly allocated. Makes `stream`, which will fill it, wait
 * for its last readers. */
gpur_status gpur_pool_acquire(gpur_pool *pool, int64_t count, gpur_stream *stream, gpur_batch **batch);

/* The same without allocating memory: the batch is NULL if no idle one is large enough. */
gpur_status gpur_pool_acquire_idle(gpur_pool *pool, int64_t count, gpur_stream *stream, gpur_batch **batch);

/* Prepares a batch, whose only reference is the caller's, to be filled again: makes `stream` wait for its readers;
 * memory and count stay. GPUR_WOULD_BLOCK: one of the streams that may read it cannot be waited for. */
gpur_status gpur_pool_reuse(gpur_batch *batch, gpur_stream *stream);

/* Allows the caller's stream to read the batch from now on. Refuses more than GPUR_MAX_READERS streams. */
gpur_status gpur_pool_add_reader(gpur_batch *batch, void *native);

/* Batches that are not released, and batches ever allocated. */
void gpur_pool_count(gpur_pool *pool, int64_t *alive, int64_t *made);

static inline void *gpur_batch_array(const gpur_batch *batch, int32_t array)
{
    return batch->memory + batch->layout.arrays[array].offset;
}
