/* SPDX-License-Identifier: MIT */
/*
 * A queue of pointers in the order of their arrival, for threads of both sides. It has `room`; what happens without
 * room is the caller's choice. With GPUR_QUEUE_WAIT an item enters behind the others all the same, and its thread then
 * waits until the item has moved up into the room. So a thread that stops waiting leaves no item behind that would be
 * neither in the queue nor its own, and no item is passed by a later one.
 */
#pragma once

#include "base/platform.h"
#include "base/status.h"

#include <pthread.h>
#include <stdatomic.h>

/* On what a thread waits that has put an item. */
typedef struct gpur_queue_waiter {
    gpur_semaphore
        admitted; /* posted once for each item of this thread that has moved up, and to wake the thread otherwise */
    _Atomic int is_admitted;
} gpur_queue_waiter;

typedef struct gpur_queue_entry {
    void *item;
    gpur_queue_waiter *waiter;
    int64_t entered; /* the clock when it came */
} gpur_queue_entry;

typedef struct gpur_queue {
    pthread_mutex_t lock; /* protects what follows */
    pthread_cond_t arrived;
    int is_open;
    gpur_queue_entry *entries; /* (places) a ring */
    int64_t places, room, first, count;
    int32_t when_full; /* GPUR_QUEUE_* */
    int is_flushing;
    const _Atomic int64_t *clock; /* counts updates of the weights; NULL: none */
    int64_t removals;             /* calls of gpur_queue_take that gave something */
    int64_t lengths;              /* sum of the lengths that they found, each at most `room` */
    int64_t longest;              /* by the clock, that an item was in the queue */
} gpur_queue;

/* `waiters`: how many threads put items, each one at a time. */
gpur_status gpur_queue_open(gpur_queue *queue, int64_t room, int64_t waiters, int32_t when_full,
                            const _Atomic int64_t *clock);
void gpur_queue_close(gpur_queue *queue); /* accepts a zeroed one */

/* Puts an item. Returns NULL, or the item that was dropped for it: this one, or the oldest. */
void *gpur_queue_put(gpur_queue *queue, void *item, gpur_queue_waiter *waiter);

/* Waits until the thread's last item has moved up, or the thread is asked to stop. Returns NULL, or the item if it was
 * taken back since it had not moved up. */
void *gpur_queue_wait(gpur_queue *queue, gpur_queue_waiter *waiter, const _Atomic int *must_end);

/* Waits for an item, and takes it and those that are there at once, at most `most`. Returns their number; 0 if the
 * thread is asked to stop, or, with has_some, if the queue is empty and being flushed. */
int64_t gpur_queue_take(gpur_queue *queue, void **items, int64_t most, const _Atomic int *must_end, int has_some);

/* While a queue is flushed, threads that have some items take no more than there are. */
void gpur_queue_flush(gpur_queue *queue, int is_flushing);

/* Wakes all threads in gpur_queue_take. To be called after some of them were asked to stop. */
void gpur_queue_wake(gpur_queue *queue);

typedef struct gpur_queue_stats {
    double mean_length;
    int64_t longest;
} gpur_queue_stats;
gpur_queue_stats gpur_queue_read(gpur_queue *queue);
