/* SPDX-License-Identifier: MIT */
/*
 * Streams of the CPU. With the inline executor an operation runs on the caller's thread, under the stream's lock. With
 * the thread executor, operations pass through a bounded ring to the stream's worker. The lock is a ticket lock: a
 * caller waits only for the operations of callers who asked before it, not for one who enqueues in a loop.
 *
 * Enqueuing orders the caller before the worker (happens-before), but never the worker before the caller: hence two
 * semaphores, and the caller looks for free slots only when the slots it knows are used up. With one mutex on both
 * sides a caller would synchronize with finished work whenever it enqueues more, and carry that order to the next
 * stream it enqueues on; ThreadSanitizer would then miss a forgotten event.
 */
#include "base/ticket_lock.h"
#include "base/thread.h"
#include "device/cpu/cpu.h"
#include "kernels/cpu/copy_nontemporal.h"

#include <stdalign.h>
#include <stdio.h>
#include <string.h>

enum { RING_LENGTH = 256, OVERFLOW_LENGTH = 16, ERROR_BYTES = 512 };

typedef struct cpu_op {
    gpur_cpu_op run; /* NULL: the worker ends */
    alignas(max_align_t) unsigned char payload[GPUR_CPU_PAYLOAD];
} cpu_op;

typedef struct overflow_arg_bytes {
    alignas(max_align_t) unsigned char bytes[GPUR_MAX_ARGS];
} overflow_arg_bytes;

/* Slots of a ring: taken by callers, freed by the worker. */
typedef struct slot_pool {
    int64_t length, next;
    int64_t room;         /* slots known to be free; there may be more */
    gpur_semaphore freed; /* counts slots that were freed and are not yet in `room` */
} slot_pool;

typedef struct cpu_stream {
    gpur_stream base;
    gpur_stream *next; /* in the device's list of streams */
    int threaded, thread_created;
    gpur_ticket_lock enqueuing;
    cpu_op *ring; /* (slots.length) */
    slot_pool slots;
    cpu_op *op;                        /* the operation being enqueued */
    overflow_arg_bytes *overflow_args; /* (overflow_slots.length); NULL with the inline executor */
    slot_pool overflow_slots;
    gpur_semaphore ready; /* counts operations that wait for the worker */
    pthread_t thread;
    void *launcher;
    gpur_status status; /* the first failure and its message, written in the order of the stream */
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
        cpu_op *const op = &stream->ring[taken % stream->slots.length];
        if (!op->run)
            return NULL;
        (void)run_op(stream, op); /* stored in the stream until a sync */
        gpur_semaphore_post(&stream->slots.freed);
    }
}

static void slot_pool_open(slot_pool *p, int64_t length)
{
    p->length = p->room = length;
    gpur_semaphore_open(&p->freed);
}

static int64_t slot_pool_acquire(slot_pool *p)
{
    if (p->room == 0) {
        gpur_semaphore_wait(&p->freed);
        for (p->room = 1; gpur_semaphore_try_wait(&p->freed) == 0;)
            p->room++;
    }
    p->room--;
    return p->next++ % p->length;
}

/* Returns 1 in a forked child if the threads of the device's streams exist only in its parent. Nothing enqueued would
 * ever run, so every call is refused with fail_without_threads. */
static int is_forked_child(const gpur_device *device)
{
    return device->config.executor == GPUR_EXECUTOR_THREAD && gpur_cpu_of(device)->forks != gpur_forks();
}

static gpur_status fail_without_threads(void)
{
    return gpur_fail(GPUR_DEVICE_ERROR,
                     "this process is a child of fork, and the threads of this device's streams are its "
                     "parent's alone; open a device here, or use GPUR_EXECUTOR_INLINE");
}

/* In a forked child the stream has no worker, and another thread of the parent may have held the lock during the fork.
 * So neither is used, and what is written to this payload is ignored. */
void *gpur_cpu_begin(gpur_stream *base)
{
    cpu_stream *const stream = (cpu_stream *)base;
    if (is_forked_child(base->device))
        return stream->ring[0].payload;
    gpur_ticket_lock_lock(&stream->enqueuing);
    stream->op = &stream->ring[stream->threaded ? slot_pool_acquire(&stream->slots) : 0];
    return stream->op->payload;
}

/* The few kernels with more than GPUR_CPU_ARGS bytes of arguments do not fit a payload. With the thread executor this,
 * called between begin and end, waits for one of the stream's few overflow slots of GPUR_MAX_ARGS bytes, which the
 * operation frees when it has run. Slots are taken and freed in the order of the stream. */
static void *overflow_args(gpur_stream *base)
{
    cpu_stream *const stream = (cpu_stream *)base;
    if (is_forked_child(base->device))
        return stream->overflow_args[0].bytes;
    return stream->overflow_args[slot_pool_acquire(&stream->overflow_slots)].bytes;
}

gpur_status gpur_cpu_end(gpur_stream *base, gpur_cpu_op run)
{
    cpu_stream *const stream = (cpu_stream *)base;
    gpur_status status = GPUR_OK;
    if (is_forked_child(base->device))
        return fail_without_threads();
    stream->op->run = run;
    if (stream->threaded)
        gpur_semaphore_post(&stream->ready);
    else
        status = run_op(stream, stream->op);
    gpur_ticket_lock_unlock(&stream->enqueuing);
    return status;
}

/* Sync marker: when the stream reaches it, it copies the stream's status to the waiting thread. */
typedef struct waiter {
    gpur_semaphore done;
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
    gpur_semaphore_post(&waits->done);
    return GPUR_OK;
}

gpur_status gpur_cpu_stream_sync(gpur_stream *base)
{
    waiter waits;
    waiter *const address = &waits;
    if (is_forked_child(base->device))
        return fail_without_threads();
    gpur_semaphore_open(&waits.done);
    memcpy(gpur_cpu_begin(base), &address, sizeof address);
    (void)gpur_cpu_end(base, report);
    gpur_semaphore_wait(&waits.done);
    gpur_semaphore_close(&waits.done);
    return waits.status == GPUR_OK ? GPUR_OK : gpur_fail(waits.status, "%s", waits.error);
}

void **gpur_cpu_stream_launcher(gpur_stream *stream)
{
    return &((cpu_stream *)stream)->launcher;
}

static gpur_status alloc_rings(cpu_stream *stream)
{
    gpur_device *const device = stream->base.device;
    const int64_t length = stream->slots.length, large = stream->overflow_slots.length;
    stream->ring = (cpu_op *)gpur_host_alloc(device, (size_t)length * sizeof *stream->ring);
    if (stream->threaded)
        stream->overflow_args =
            (overflow_arg_bytes *)gpur_host_alloc(device, (size_t)large * sizeof *stream->overflow_args);
    if (!stream->ring || (stream->threaded && !stream->overflow_args))
        return gpur_fail(GPUR_OUT_OF_MEMORY, "no memory for a stream of %d operations", (int)length);
    return GPUR_OK;
}

static gpur_status build(cpu_stream *stream)
{
    gpur_device *const device = stream->base.device;
    stream->threaded = device->config.executor == GPUR_EXECUTOR_THREAD;
    gpur_semaphore_open(&stream->ready);
    slot_pool_open(&stream->slots, stream->threaded ? RING_LENGTH : 1);
    slot_pool_open(&stream->overflow_slots, OVERFLOW_LENGTH);
    GPUR_TRY(gpur_ticket_lock_open(&stream->enqueuing, "a stream"));
    GPUR_TRY(alloc_rings(stream));
    if (stream->threaded)
        GPUR_TRY(gpur_thread_start(&stream->thread, work, stream, "a stream"));
    stream->thread_created = stream->threaded;
    return GPUR_OK;
}

static void stop_thread(cpu_stream *stream)
{
    (void)gpur_cpu_begin(&stream->base);
    (void)gpur_cpu_end(&stream->base, NULL); /* runs after everything enqueued before */
    pthread_join(stream->thread, NULL);
}

/* Not called in a forked child, where other threads still seem to wait on these objects. */
static void end_work(cpu_stream *stream)
{
    if (stream->thread_created)
        stop_thread(stream);
    gpur_cpu_stream_launcher_close(&stream->base);
    gpur_semaphore_close(&stream->overflow_slots.freed);
    gpur_semaphore_close(&stream->slots.freed);
    gpur_semaphore_close(&stream->ready);
    gpur_ticket_lock_close(&stream->enqueuing);
}

static void free_stream(cpu_stream *stream)
{
    gpur_device *const device = stream->base.device;
    if (!is_forked_child(device))
        end_work(stream);
    gpur_host_free(device, stream->overflow_args,
                   (size_t)stream->overflow_slots.length * sizeof *stream->overflow_args);
    gpur_host_free(device, stream->ring, (size_t)stream->slots.length * sizeof *stream->ring);
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

/* Nothing is captured here. */
gpur_status gpur_cpu_stream_create_unlisted(gpur_device *device, gpur_stream **out)
{
    return gpur_cpu_stream_create(device, NULL, out);
}

gpur_status gpur_cpu_stream_borrow(gpur_device *device, void *native, gpur_stream **out)
{
    *out = NULL;
    return gpur_cpu_native_stream_check(device, native, 0);
}

void gpur_cpu_stream_give_back(gpur_stream *base)
{
    (void)base;
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

/* Waits for every stream; returns the first failure. */
gpur_status gpur_cpu_sync(gpur_device *device)
{
    gpur_cpu *const cpu = gpur_cpu_of(device);
    gpur_status worst = GPUR_OK;
    if (is_forked_child(device))
        return fail_without_threads();
    pthread_mutex_lock(&cpu->streams_mutex);
    for (gpur_stream *stream = cpu->streams; stream; stream = ((cpu_stream *)stream)->next) {
        const gpur_status status = gpur_cpu_stream_sync(stream);
        worst = worst == GPUR_OK ? status : worst;
    }
    pthread_mutex_unlock(&cpu->streams_mutex);
    return worst;
}

/* Copies, fills and launches on the CPU. */

typedef struct copy_op {
    void *to;
    const void *from;
    int64_t bytes;
} copy_op;

static gpur_status run_copy(gpur_stream *stream, void *payload)
{
    const copy_op *const op = (const copy_op *)payload;
    (void)stream;
    memcpy(op->to, op->from, (size_t)op->bytes);
    return GPUR_OK;
}

static gpur_status run_copy_nt(gpur_stream *stream, void *payload)
{
    const copy_op *const op = (const copy_op *)payload;
    (void)stream;
    gpur_memcpy_nt(op->to, op->from, op->bytes);
    return GPUR_OK;
}

static gpur_status enqueue_copy(gpur_stream *stream, void *to, const void *from, int64_t bytes, gpur_cpu_op run)
{
    copy_op *const op = (copy_op *)gpur_cpu_begin(stream);
    op->to = to, op->from = from, op->bytes = bytes;
    return gpur_cpu_end(stream, run);
}

gpur_status gpur_cpu_copy(gpur_stream *stream, void *to, const void *from, int64_t bytes)
{
    return enqueue_copy(stream, to, from, bytes, run_copy);
}

gpur_status gpur_cpu_copy_nt(gpur_stream *stream, void *to, const void *from, int64_t bytes)
{
    return enqueue_copy(stream, to, from, bytes, run_copy_nt);
}

typedef struct fill_op {
    void *memory;
    int64_t bytes;
    int byte;
} fill_op;

static gpur_status run_fill(gpur_stream *stream, void *payload)
{
    const fill_op *const op = (const fill_op *)payload;
    (void)stream;
    memset(op->memory, op->byte, (size_t)op->bytes);
    return GPUR_OK;
}

gpur_status gpur_cpu_fill(gpur_stream *stream, void *memory, int byte, int64_t bytes)
{
    fill_op *const op = (fill_op *)gpur_cpu_begin(stream);
    op->memory = memory, op->byte = byte, op->bytes = bytes;
    return gpur_cpu_end(stream, run_fill);
}

typedef struct launch_op {
    gpur_grid grid;
    int kernel;
    const void *args; /* the caller's arguments if inline, else a copy */
    int in_overflow;  /* 1: the copy is in an overflow slot, 0: in `copy` */
    _Alignas(16) unsigned char copy[GPUR_CPU_ARGS];
} launch_op;
_Static_assert(sizeof(launch_op) <= GPUR_CPU_PAYLOAD, "a launch must fit the payload of an operation");

static gpur_status run_launch(gpur_stream *stream, void *payload)
{
    const launch_op *const op = (const launch_op *)payload;
    const gpur_status status = gpur_cpu_run_kernel(stream, op->kernel, op->grid, op->args);
    if (op->in_overflow)
        gpur_semaphore_post(&((cpu_stream *)stream)->overflow_slots.freed);
    return status;
}

gpur_status gpur_cpu_launch(gpur_stream *stream, int kernel, gpur_grid grid, const void *args, size_t bytes)
{
    launch_op *const op = (launch_op *)gpur_cpu_begin(stream);
    const int is_inline = stream->device->config.executor == GPUR_EXECUTOR_INLINE;
    op->grid = grid, op->kernel = kernel, op->args = args;
    op->in_overflow = !is_inline && bytes > sizeof op->copy;
    if (!is_inline)
        op->args = memcpy(op->in_overflow ? overflow_args(stream) : op->copy, args, bytes);
    return gpur_cpu_end(stream, run_launch);
}

/*
 * Events of the CPU. Every record gets the next number of its event when it is enqueued; when the stream runs the
 * record, it sets `reached` to that number. A wait is for the number that was the latest when the wait was enqueued, so
 * a later record does not affect it. Numbers are reached in order, even if they were recorded on different streams. A
 * wait depends only on operations enqueued before it, so waits cannot form a cycle.
 *
 * Threads lock the mutex when they reach a number or wait for one, but not when they enqueue, for the reason given at
 * the top of this file.
 */

typedef struct cpu_event {
    gpur_event base;
    int queued;              /* thread executor: operations may run after the owner has destroyed the event */
    atomic_int references;   /* one for the owner, and one for each enqueued operation */
    _Atomic int64_t records; /* records enqueued so far */
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
    if (!is_forked_child(event->base.device)) { /* in a forked child the parent's threads seem to wait */
        pthread_cond_destroy(&event->moved);
        pthread_mutex_destroy(&event->mutex);
    }
    gpur_host_free(event->base.device, event, sizeof *event);
}

static void drop_reference(cpu_event *event)
{
    if (atomic_fetch_sub_explicit(&event->references, 1, memory_order_acq_rel) <= 1)
        free_event(event);
}

/* Begins an operation that holds a reference to the event. */
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
        drop_reference(event);
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
        free_event(event); /* a zeroed mutex and condition may be destroyed, too */
        return gpur_fail(GPUR_OUT_OF_MEMORY, "no lock for an event: the system has no more of them");
    }
    *out = &event->base;
    return GPUR_OK;
}

void gpur_cpu_event_destroy(gpur_event *event)
{
    drop_reference((cpu_event *)event);
}

/* The number is assigned while the stream is locked, so that no wait for it can precede the record on the same
 * stream. */
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
    if (is_forked_child(base->device))
        return fail_without_threads();
    pthread_mutex_lock(&event->mutex);
    wait_until_reached(event, number);
    pthread_mutex_unlock(&event->mutex);
    return GPUR_OK;
}

int gpur_cpu_event_done(gpur_event *base)
{
    cpu_event *const event = (cpu_event *)base;
    if (is_forked_child(base->device))
        return 1;
    pthread_mutex_lock(&event->mutex);
    const int done = event->reached == latest(event);
    pthread_mutex_unlock(&event->mutex);
    return done;
}

/* A gpur_graph on the CPU is the function itself: calling it again costs less than storing what it enqueued. */

typedef struct cpu_graph {
    gpur_graph base;
    gpur_record_fn record;
    void *context;
} cpu_graph;

gpur_status gpur_cpu_run_first(gpur_stream *stream, gpur_record_fn record, void *context)
{
    return record(context, stream);
}

gpur_status gpur_cpu_graph_create(gpur_device *device, gpur_record_fn record, void *context, int unroll,
                                  gpur_graph **out)
{
    (void)unroll;
    *out = NULL;
    cpu_graph *const graph = (cpu_graph *)gpur_host_alloc(device, sizeof *graph);
    if (!graph)
        return gpur_fail(GPUR_OUT_OF_MEMORY, "no memory for a graph of %zu bytes", sizeof *graph);
    graph->base.device = device;
    graph->record = record;
    graph->context = context;
    *out = &graph->base;
    return GPUR_OK;
}

void gpur_cpu_graph_destroy(gpur_graph *graph)
{
    gpur_host_free(graph->device, graph, sizeof(cpu_graph));
}

gpur_status gpur_cpu_graph_launch(gpur_graph *base, gpur_stream *stream, int64_t repetitions)
{
    const cpu_graph *const graph = (const cpu_graph *)base;
    for (int64_t i = 0; i < repetitions; i++)
        GPUR_TRY(graph->record(graph->context, stream));
    return GPUR_OK;
}
