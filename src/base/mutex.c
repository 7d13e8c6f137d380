/* SPDX-License-Identifier: MIT */
#include "base/mutex.h"

#include "base/platform.h"

gpur_status gpur_mutex_open(gpur_mutex *lock, const char *what)
{
    if (pthread_mutex_init(&lock->mutex, NULL) != 0 || pthread_cond_init(&lock->unlocked, NULL) != 0 ||
        gpur_timed_condition_open(&lock->notified) != 0)
        return gpur_fail(GPUR_OUT_OF_MEMORY, "no lock for %s: the system has no more of them", what);
    return GPUR_OK;
}

void gpur_mutex_close(gpur_mutex *lock)
{
    pthread_cond_destroy(&lock->notified);
    pthread_cond_destroy(&lock->unlocked);
    pthread_mutex_destroy(&lock->mutex);
}

static int contended_and_unlocked(gpur_mutex *lock)
{
    return atomic_exchange_explicit(&lock->state, GPUR_MUTEX_CONTENDED, memory_order_acquire) == GPUR_MUTEX_FREE;
}

/* A waiter sets GPUR_MUTEX_CONTENDED while it holds `mutex`, and an unlocker that sees WANTED locks `mutex` before it
 * signals. So the waiter is already asleep by then, and no wake-up is lost. A thread that has waited takes the lock as
 * WANTED, because other threads may still be waiting. */
void gpur_mutex_lock_slow(gpur_mutex *lock)
{
    pthread_mutex_lock(&lock->mutex);
    while (!contended_and_unlocked(lock))
        pthread_cond_wait(&lock->unlocked, &lock->mutex);
    pthread_mutex_unlock(&lock->mutex);
}

void gpur_mutex_unlock_slow(gpur_mutex *lock)
{
    pthread_mutex_lock(&lock->mutex);
    pthread_cond_signal(&lock->unlocked);
    pthread_mutex_unlock(&lock->mutex);
}

/* A notifier holds the lock, and this thread releases the lock only with `mutex` held. So a notification comes after
 * pthread_cond_wait has begun, and is not lost. */
static void wait_until(gpur_mutex *lock, const struct timespec *end)
{
    int error = 0;
    lock->waiters++;
    pthread_mutex_lock(&lock->mutex);
    const uint64_t seen = lock->notifications;
    if (atomic_exchange_explicit(&lock->state, GPUR_MUTEX_FREE, memory_order_release) == GPUR_MUTEX_CONTENDED)
        pthread_cond_signal(&lock->unlocked);
    while (lock->notifications == seen && error == 0)
        error = end ? gpur_timed_condition_wait(&lock->notified, &lock->mutex, end)
                    : pthread_cond_wait(&lock->notified, &lock->mutex);
    pthread_mutex_unlock(&lock->mutex);
    gpur_mutex_lock(lock);
    lock->waiters--;
}

void gpur_mutex_wait(gpur_mutex *lock)
{
    wait_until(lock, NULL);
}

void gpur_mutex_wait_for(gpur_mutex *lock, double seconds)
{
    struct timespec end;
    clock_gettime(CLOCK_MONOTONIC, &end);
    const int64_t nanoseconds = end.tv_nsec + (int64_t)(seconds * 1e9);
    end.tv_sec += (time_t)(nanoseconds / 1000000000);
    end.tv_nsec = (long)(nanoseconds % 1000000000);
    wait_until(lock, &end);
}

void gpur_mutex_notify_slow(gpur_mutex *lock)
{
    pthread_mutex_lock(&lock->mutex);
    lock->notifications++;
    pthread_cond_broadcast(&lock->notified);
    pthread_mutex_unlock(&lock->mutex);
}
