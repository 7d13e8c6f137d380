/* SPDX-License-Identifier: MIT */
/*
 * Events of the CPU. Each record gets the event's next number when it is enqueued, and its stream sets that number as
 * reached; a wait is for the number that was the latest when it was enqueued, so recording anew does not disturb it.
 * Numbers are reached in order, even when they were recorded on different streams. A wait only ever depends on what was
 * enqueued before it, so waits cannot form a ring.
 *
 * The mutex is taken by those who reach a number and those who wait for it, and not by callers who enqueue: see
 * stream_cpu.c.
 */
#include "device/cpu.h"

typedef struct cpu_event {
    gpur_event base;
    int queued;              /* operations wait in a queue, perhaps until after the owner has let go */
    atomic_int references;   /* the owner's, and one for each operation in a queue */
    _Atomic int64_t records; /* enqueued */
    pthread_mutex_t mutex;
    pthread_cond_t moved;
    int64_t reached;
} cpu_event;

typedef struct event_op {
    cpu_event *event;
    int64_t number;
} event_op;

static void free_event(cpu_event *event)
{
    if (!gpur_cpu_threads_are_gone(event->base.device)) { /* in a child of fork the parent's still seem to wait */
        pthread_cond_destroy(&event->moved);
        pthread_mutex_destroy(&event->mutex);
    }
    gpur_host_free(event->base.device, event, sizeof *event);
}

static void let_go(cpu_event *event)
{
    if (atomic_fetch_sub_explicit(&event->references, 1, memory_order_acq_rel) <= 1)
        free_event(event);
}

/* For an operation that is being enqueued. */
static event_op *begin_op(gpur_stream *stream, cpu_event *event)
{
    event_op *const op = (event_op *)gpur_cpu_begin(stream);
    if (event->queued)
        atomic_fetch_add_explicit(&event->references, 1, memory_order_relaxed);
    op->event = event;
    return op;
}

static void end_op(cpu_event *event)
{
    if (event->queued)
        let_go(event);
}

static void wait_until_reached(cpu_event *event, int64_t number)
{
    while (event->reached < number)
        pthread_cond_wait(&event->moved, &event->mutex);
}

static gpur_status reach(gpur_stream *stream, void *payload)
{
    const event_op *const op = (const event_op *)payload;
    cpu_event *const event = op->event;
    (void)stream;
    pthread_mutex_lock(&event->mutex);
    wait_until_reached(event, op->number - 1);
    event->reached = op->number;
    pthread_cond_broadcast(&event->moved);
    pthread_mutex_unlock(&event->mutex);
    end_op(event);
    return GPUR_OK;
}

static gpur_status wait_for_number(gpur_stream *stream, void *payload)
{
    const event_op *const op = (const event_op *)payload;
    (void)stream;
    pthread_mutex_lock(&op->event->mutex);
    wait_until_reached(op->event, op->number);
    pthread_mutex_unlock(&op->event->mutex);
    end_op(op->event);
    return GPUR_OK;
}

static int64_t latest(cpu_event *event)
{
    return atomic_load_explicit(&event->records, memory_order_relaxed);
}

gpur_status gpur_cpu_event_create(gpur_device *device, gpur_event **out)
{
    *out = NULL;
    cpu_event *const event = (cpu_event *)gpur_host_alloc(device, sizeof *event);
    if (!event)
        return gpur_fail(GPUR_OUT_OF_MEMORY, "no memory for an event of %zu bytes", sizeof *event);
    event->base.device = device;
    event->queued = device->config.executor == GPUR_EXECUTOR_THREAD;
    atomic_init(&event->references, 1);
    if (pthread_mutex_init(&event->mutex, NULL) != 0 || pthread_cond_init(&event->moved, NULL) != 0) {
        free_event(event); /* all zeros are destroyed like one that was made */
        return gpur_fail(GPUR_OUT_OF_MEMORY, "no lock for an event: the system has no more of them");
    }
    *out = &event->base;
    return GPUR_OK;
}

void gpur_cpu_event_destroy(gpur_event *event)
{
    let_go((cpu_event *)event);
}

/* The number is taken while the stream is locked, so that no wait for it can get ahead of it on the same stream. */
gpur_status gpur_cpu_event_record(gpur_event *base, gpur_stream *stream)
{
    cpu_event *const event = (cpu_event *)base;
    event_op *const op = begin_op(stream, event);
    op->number = 1 + atomic_fetch_add_explicit(&event->records, 1, memory_order_relaxed);
    return gpur_cpu_end(stream, reach);
}

gpur_status gpur_cpu_event_wait(gpur_stream *stream, gpur_event *base)
{
    cpu_event *const event = (cpu_event *)base;
    const int64_t number = latest(event);
    if (number == 0)
        return GPUR_OK;
    begin_op(stream, event)->number = number;
    return gpur_cpu_end(stream, wait_for_number);
}

gpur_status gpur_cpu_event_sync(gpur_event *base)
{
    cpu_event *const event = (cpu_event *)base;
    const int64_t number = latest(event);
    if (gpur_cpu_threads_are_gone(base->device))
        return gpur_cpu_fail_without_threads();
    pthread_mutex_lock(&event->mutex);
    wait_until_reached(event, number);
    pthread_mutex_unlock(&event->mutex);
    return GPUR_OK;
}

int gpur_cpu_event_done(gpur_event *base)
{
    cpu_event *const event = (cpu_event *)base;
    if (gpur_cpu_threads_are_gone(base->device))
        return 1;
    pthread_mutex_lock(&event->mutex);
    const int done = event->reached == latest(event);
    pthread_mutex_unlock(&event->mutex);
    return done;
}
