/* SPDX-License-Identifier: MIT */
/* A bounded queue of pointers between threads. */
#include "run/ga3c/queue.h"

#include "base/numbers.h"
#include "gpureplay/ga3c.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static gpur_status open_lock(gpur_queue *queue)
{
    int error = pthread_mutex_init(&queue->lock, NULL);
    if (error == 0) {
        error = pthread_cond_init(&queue->arrived, NULL);
        if (error)
            pthread_mutex_destroy(&queue->lock);
    }
    queue->is_open = error == 0;
    return error ? gpur_fail(GPUR_OUT_OF_MEMORY, "no lock for a queue: %s", strerror(error)) : GPUR_OK;
}

gpur_status gpur_queue_open(gpur_queue *queue, int64_t room, int64_t waiters, int32_t when_full,
                            const _Atomic int64_t *clock)
{
    queue->places = room + waiters;
    queue->room = room;
    queue->when_full = when_full;
    queue->clock = clock;
    queue->entries = calloc((size_t)queue->places, sizeof *queue->entries);
    if (!queue->entries)
        return gpur_fail(GPUR_OUT_OF_MEMORY, "no memory for a queue of %" PRId64 " places", queue->places);
    return open_lock(queue);
}

void gpur_queue_close(gpur_queue *queue)
{
    if (queue->is_open) {
        pthread_cond_destroy(&queue->arrived);
        pthread_mutex_destroy(&queue->lock);
    }
    free(queue->entries);
    *queue = (gpur_queue){0};
}

static int64_t now(const gpur_queue *queue)
{
    return queue->clock ? atomic_load(queue->clock) : 0;
}

static gpur_queue_entry *entry_at(gpur_queue *queue, int64_t i)
{
    return &queue->entries[(queue->first + i) % queue->places];
}

/* Removes the oldest item. The one that moves up into the room by that lets its thread go on. */
static void *remove_first(gpur_queue *queue)
{
    void *const item = entry_at(queue, 0)->item;
    queue->longest = gpur_max(queue->longest, now(queue) - entry_at(queue, 0)->entered);
    queue->first = (queue->first + 1) % queue->places;
    queue->count--;
    if (queue->count >= queue->room) {
        gpur_queue_waiter *const waiter = entry_at(queue, queue->room - 1)->waiter;
        atomic_store(&waiter->is_admitted, 1);
        gpur_semaphore_post(&waiter->admitted);
    }
    return item;
}

static void append(gpur_queue *queue, void *item, gpur_queue_waiter *waiter)
{
    if (waiter)
        atomic_store(&waiter->is_admitted, queue->count < queue->room);
    *entry_at(queue, queue->count++) = (gpur_queue_entry){item, waiter, now(queue)};
    pthread_cond_signal(&queue->arrived);
}

void *gpur_queue_put(gpur_queue *queue, void *item, gpur_queue_waiter *waiter)
{
    void *dropped = NULL;
    pthread_mutex_lock(&queue->lock);
    const int is_full = queue->count >= queue->room;
    if (is_full && queue->when_full == GPUR_QUEUE_DROP_OLDEST)
        dropped = remove_first(queue);
    if (is_full && queue->when_full == GPUR_QUEUE_REFUSE)
        dropped = item;
    else
        append(queue, item, waiter);
    pthread_mutex_unlock(&queue->lock);
    return dropped;
}

/* Removes a waiting item; items behind it move up, but still wait. */
static void *take_back(gpur_queue *queue, const gpur_queue_waiter *waiter)
{
    for (int64_t i = queue->room; i < queue->count; i++) {
        if (entry_at(queue, i)->waiter != waiter)
            continue;
        void *const item = entry_at(queue, i)->item;
        for (; i + 1 < queue->count; i++)
            *entry_at(queue, i) = *entry_at(queue, i + 1);
        queue->count--;
        return item;
    }
    return NULL;
}

void *gpur_queue_wait(gpur_queue *queue, gpur_queue_waiter *waiter, const _Atomic int *must_end)
{
    while (queue->when_full == GPUR_QUEUE_WAIT && !atomic_load(&waiter->is_admitted)) {
        if (atomic_load(must_end)) {
            pthread_mutex_lock(&queue->lock);
            void *const item = take_back(queue, waiter);
            pthread_mutex_unlock(&queue->lock);
            return item;
        }
        gpur_semaphore_wait(&waiter->admitted);
    }
    return NULL;
}

/* A thread that is asked to stop may have been woken for an item that it does not take; gpur_queue_wake, which comes
 * after it was asked, wakes the others. */
static int wait_and_look(gpur_queue *queue, const _Atomic int *must_end, int has_some)
{
    while (queue->count == 0 && !atomic_load(must_end) && !(has_some && queue->is_flushing))
        pthread_cond_wait(&queue->arrived, &queue->lock);
    return queue->count > 0 && !atomic_load(must_end);
}

int64_t gpur_queue_take(gpur_queue *queue, void **items, int64_t most, const _Atomic int *must_end, int has_some)
{
    int64_t taken = 0;
    pthread_mutex_lock(&queue->lock);
    if (wait_and_look(queue, must_end, has_some)) {
        queue->removals++;
        queue->lengths += gpur_min(queue->count, queue->room);
        while (taken < most && queue->count > 0)
            items[taken++] = remove_first(queue);
    }
    pthread_mutex_unlock(&queue->lock);
    return taken;
}

void gpur_queue_flush(gpur_queue *queue, int is_flushing)
{
    pthread_mutex_lock(&queue->lock);
    queue->is_flushing = is_flushing;
    pthread_cond_broadcast(&queue->arrived);
    pthread_mutex_unlock(&queue->lock);
}

void gpur_queue_wake(gpur_queue *queue)
{
    pthread_mutex_lock(&queue->lock);
    pthread_cond_broadcast(&queue->arrived);
    pthread_mutex_unlock(&queue->lock);
}

gpur_queue_stats gpur_queue_read(gpur_queue *queue)
{
    gpur_queue_stats stats = {0};
    if (!queue->is_open)
        return stats;
    pthread_mutex_lock(&queue->lock);
    stats.longest = queue->longest;
    stats.mean_length = queue->removals > 0 ? (double)queue->lengths / (double)queue->removals : 0.0;
    pthread_mutex_unlock(&queue->lock);
    return stats;
}
