/* SPDX-License-Identifier: MIT */
/*
 * Streams of the CPU. Inline, an operation runs in the caller, under the stream's lock. With a thread, operations go
 * through a bounded ring to the stream's worker. The lock is a fair one: a caller waits for the operations of those who
 * asked before, and not for one who enqueues in a loop.
 *
 * The ring is built so that enqueuing orders the caller before the worker and never the worker before the caller: two
 * semaphores, and room that is asked for only when the known room is used up. With one mutex on both sides, the caller
 * would learn of finished work by enqueuing more, and carry that to the next stream it enqueues on, where
 * ThreadSanitizer would take it for the event that somebody forgot.
 */
#include "base/fair_lock.h"
#include "base/thread.h"
#include "device/cpu.h"

#include <stdalign.h>
#include <stdio.h>
#include <string.h>

enum { RING_LENGTH = 256, LARGE_LENGTH = 16, ERROR_BYTES = 512 };

typedef struct cpu_op {
    gpur_cpu_op run; /* NULL: the worker ends */
    alignas(max_align_t) unsigned char payload[GPUR_CPU_PAYLOAD];
} cpu_op;

typedef struct large_args {
    alignas(max_align_t) unsigned char bytes[GPUR_MAX_ARGS];
} large_args;

/* Places of a ring: taken by whoever enqueues, given back by the worker. */
typedef struct places {
    int64_t length, taken;
    int64_t room; /* places known to be free; there may be more */
    sem_t freed;  /* given back, and not in `room` */
} places;

typedef struct cpu_stream {
    gpur_stream base;
    gpur_stream *next; /* in the device's list */
    int threaded, thread_made;
    gpur_fair_lock enqueuing;
    cpu_op *ring; /* (places.length) */
    places places;
    cpu_op *op;         /* the one being enqueued */
    large_args *larges; /* (large.length), NULL inline */
    places large;
    sem_t ready; /* counts operations that wait for the worker */
    pthread_t thread;
    void *blocks;
    gpur_status status; /* the first failure, and its text: written in the order of the stream */
    char error[ERROR_BYTES];
} cpu_stream;

static gpur_status run_op(cpu_stream *stream, cpu_op *op)
{
    const gpur_status status = op->run(&stream->base, op->payload);
    if (status != GPUR_OK && stream->status == GPUR_OK) {
        stream->status = status;
        snprintf(stream->error, sizeof stream->error, "%s", gpur_last_error());
    }
    return status;
}

static void *work(void *context)
{
    cpu_stream *const stream = (cpu_stream *)context;
    for (int64_t taken = 0;; taken++) {
        gpur_semaphore_wait(&stream->ready);
        cpu_op *const op = &stream->ring[taken % stream->places.length];
        if (!op->run)
            return NULL;
        (void)run_op(stream, op); /* kept in the stream until somebody syncs */
        sem_post(&stream->places.freed);
    }
}

static void places_open(places *p, int64_t length)
{
    p->length = p->room = length;
    sem_init(&p->freed, 0, 0);
}

static int64_t places_take(places *p)
{
    if (p->room == 0) {
        gpur_semaphore_wait(&p->freed);
        for (p->room = 1; sem_trywait(&p->freed) == 0;)
            p->room++;
    }
    p->room--;
    return p->taken++ % p->length;
}

gpur_status gpur_cpu_fail_without_threads(void)
{
    return gpur_fail(GPUR_DEVICE_ERROR,
                     "this process is a child of fork, and the threads of this device's streams are its "
                     "parent's alone; open a device here, or use GPUR_EXECUTOR_INLINE");
}

/* Without the stream's thread there is no order to keep, and a lock may be held by a thread that is not here: what is
 * enqueued goes nowhere. */
void *gpur_cpu_begin(gpur_stream *base)
{
    cpu_stream *const stream = (cpu_stream *)base;
    if (gpur_cpu_threads_are_gone(base->device))
        return stream->ring[0].payload;
    gpur_fair_lock_take(&stream->enqueuing);
    stream->op = &stream->ring[stream->threaded ? places_take(&stream->places) : 0];
    return stream->op->payload;
}

void *gpur_cpu_large(gpur_stream *base)
{
    cpu_stream *const stream = (cpu_stream *)base;
    if (gpur_cpu_threads_are_gone(base->device))
        return stream->larges[0].bytes;
    return stream->larges[places_take(&stream->large)].bytes;
}

void gpur_cpu_large_done(gpur_stream *base)
{
    sem_post(&((cpu_stream *)base)->large.freed);
}

gpur_status gpur_cpu_end(gpur_stream *base, gpur_cpu_op run)
{
    cpu_stream *const stream = (cpu_stream *)base;
    gpur_status status = GPUR_OK;
    if (gpur_cpu_threads_are_gone(base->device))
        return gpur_cpu_fail_without_threads();
    stream->op->run = run;
    if (stream->threaded)
        sem_post(&stream->ready);
    else
        status = run_op(stream, stream->op);
    gpur_fair_lock_give(&stream->enqueuing);
    return status;
}

/* Travels through the stream as an operation, and takes the stream's state along. */
typedef struct waiter {
    sem_t done;
    gpur_status status;
    char error[ERROR_BYTES];
} waiter;

static gpur_status report(gpur_stream *base, void *payload)
{
    const cpu_stream *const stream = (const cpu_stream *)base;
    waiter *waits = NULL;
    memcpy(&waits, payload, sizeof waits);
    waits->status = stream->status;
    memcpy(waits->error, stream->error, sizeof waits->error);
    sem_post(&waits->done);
    return GPUR_OK;
}

gpur_status gpur_cpu_stream_sync(gpur_stream *base)
{
    waiter waits;
    waiter *const address = &waits;
    if (gpur_cpu_threads_are_gone(base->device))
        return gpur_cpu_fail_without_threads();
    sem_init(&waits.done, 0, 0);
    memcpy(gpur_cpu_begin(base), &address, sizeof address);
    (void)gpur_cpu_end(base, report);
    gpur_semaphore_wait(&waits.done);
    sem_destroy(&waits.done);
    return waits.status == GPUR_OK ? GPUR_OK : gpur_fail(waits.status, "%s", waits.error);
}

void **gpur_cpu_stream_blocks(gpur_stream *stream)
{
    return &((cpu_stream *)stream)->blocks;
}

static gpur_status alloc_rings(cpu_stream *stream)
{
    gpur_device *const device = stream->base.device;
    const int64_t length = stream->places.length, large = stream->large.length;
    stream->ring = (cpu_op *)gpur_host_alloc(device, (size_t)length * sizeof *stream->ring);
    if (stream->threaded)
        stream->larges = (large_args *)gpur_host_alloc(device, (size_t)large * sizeof *stream->larges);
    if (!stream->ring || (stream->threaded && !stream->larges))
        return gpur_fail(GPUR_OUT_OF_MEMORY, "no memory for a stream of %d operations", (int)length);
    return GPUR_OK;
}

static gpur_status build(cpu_stream *stream)
{
    gpur_device *const device = stream->base.device;
    stream->threaded = device->config.executor == GPUR_EXECUTOR_THREAD;
    sem_init(&stream->ready, 0, 0);
    places_open(&stream->places, stream->threaded ? RING_LENGTH : 1);
    places_open(&stream->large, LARGE_LENGTH);
    GPUR_TRY(gpur_fair_lock_open(&stream->enqueuing, "a stream"));
    GPUR_TRY(alloc_rings(stream));
    if (stream->threaded)
        GPUR_TRY(gpur_thread_start(&stream->thread, work, stream, "a stream"));
    stream->thread_made = stream->threaded;
    return GPUR_OK;
}

static void stop_thread(cpu_stream *stream)
{
    (void)gpur_cpu_begin(&stream->base);
    (void)gpur_cpu_end(&stream->base, NULL); /* comes after all that was enqueued */
    pthread_join(stream->thread, NULL);
}

/* Not in a child of fork, where others may still seem to wait. */
static void end_work(cpu_stream *stream)
{
    if (stream->thread_made)
        stop_thread(stream);
    gpur_cpu_stream_blocks_close(&stream->base);
    sem_destroy(&stream->large.freed);
    sem_destroy(&stream->places.freed);
    sem_destroy(&stream->ready);
    gpur_fair_lock_close(&stream->enqueuing);
}

static void free_stream(cpu_stream *stream)
{
    gpur_device *const device = stream->base.device;
    if (!gpur_cpu_threads_are_gone(device))
        end_work(stream);
    gpur_host_free(device, stream->larges, (size_t)stream->large.length * sizeof *stream->larges);
    gpur_host_free(device, stream->ring, (size_t)stream->places.length * sizeof *stream->ring);
    gpur_host_free(device, stream, sizeof *stream);
}

gpur_status gpur_cpu_stream_create(gpur_device *device, void *native, gpur_stream **out)
{
    gpur_cpu *const cpu = gpur_cpu_of(device);
    *out = NULL;
    GPUR_REQUIRE(!native, "the stream is %p; on the CPU it must be NULL", native);
    cpu_stream *const stream = (cpu_stream *)gpur_host_alloc(device, sizeof *stream);
    if (!stream)
        return gpur_fail(GPUR_OUT_OF_MEMORY, "no memory for a stream of %zu bytes", sizeof *stream);
    stream->base.device = device;
    const gpur_status status = build(stream);
    if (status != GPUR_OK) {
        free_stream(stream);
        return status;
    }
    pthread_mutex_lock(&cpu->streams_mutex);
    stream->next = cpu->streams;
    cpu->streams = &stream->base;
    pthread_mutex_unlock(&cpu->streams_mutex);
    *out = &stream->base;
    return GPUR_OK;
}

void gpur_cpu_stream_destroy(gpur_stream *base)
{
    gpur_cpu *const cpu = gpur_cpu_of(base->device);
    cpu_stream *const stream = (cpu_stream *)base;
    gpur_stream **link = &cpu->streams;
    pthread_mutex_lock(&cpu->streams_mutex);
    while (*link != base)
        link = &((cpu_stream *)*link)->next;
    *link = stream->next;
    pthread_mutex_unlock(&cpu->streams_mutex);
    free_stream(stream);
}

/* Waits for every stream, and reports the first failure found. */
gpur_status gpur_cpu_sync(gpur_device *device)
{
    gpur_cpu *const cpu = gpur_cpu_of(device);
    gpur_status worst = GPUR_OK;
    if (gpur_cpu_threads_are_gone(device))
        return gpur_cpu_fail_without_threads();
    pthread_mutex_lock(&cpu->streams_mutex);
    for (gpur_stream *stream = cpu->streams; stream; stream = ((cpu_stream *)stream)->next) {
        const gpur_status status = gpur_cpu_stream_sync(stream);
        worst = worst == GPUR_OK ? status : worst;
    }
    pthread_mutex_unlock(&cpu->streams_mutex);
    return worst;
}
