/* SPDX-License-Identifier: MIT */
#include "base/mutex.h"

gpur_status gpur_quick_lock_open(gpur_quick_lock *lock, const char *what)
{
    if (pthread_mutex_init(&lock->mutex, NULL) != 0 || pthread_cond_init(&lock->given, NULL) != 0 ||
        pthread_cond_init(&lock->changed, NULL) != 0)
        return gpur_fail(GPUR_OUT_OF_MEMORY, "no lock for %s: the system has no more of them", what);
    return GPUR_OK;
}

void gpur_quick_lock_close(gpur_quick_lock *lock)
{
    pthread_cond_destroy(&lock->changed);
    pthread_cond_destroy(&lock->given);
    pthread_mutex_destroy(&lock->mutex);
}

static int is_wanted_and_given(gpur_quick_lock *lock)
{
    return atomic_exchange_explicit(&lock->state, GPUR_LOCK_WANTED, memory_order_acquire) == GPUR_LOCK_FREE;
}

/* A waiter sets GPUR_LOCK_WANTED while it holds `mutex`, and an unlocker that sees WANTED locks `mutex` before it
 * signals. So the waiter is already asleep by then, and no wake-up is lost. A thread that has waited takes the lock as
 * WANTED, because other threads may still be waiting. */
void gpur_quick_lock_take_late(gpur_quick_lock *lock)
{
    pthread_mutex_lock(&lock->mutex);
    while (!is_wanted_and_given(lock))
        pthread_cond_wait(&lock->given, &lock->mutex);
    pthread_mutex_unlock(&lock->mutex);
}

void gpur_quick_lock_wake_next(gpur_quick_lock *lock)
{
    pthread_mutex_lock(&lock->mutex);
    pthread_cond_signal(&lock->given);
    pthread_mutex_unlock(&lock->mutex);
}

/* A notifier holds the lock, and this thread releases the lock only with `mutex` held. So a notification comes after
 * pthread_cond_wait has begun, and is not lost. */
void gpur_quick_lock_sleep(gpur_quick_lock *lock)
{
    lock->sleepers++;
    pthread_mutex_lock(&lock->mutex);
    const uint64_t seen = lock->changes;
    if (atomic_exchange_explicit(&lock->state, GPUR_LOCK_FREE, memory_order_release) == GPUR_LOCK_WANTED)
        pthread_cond_signal(&lock->given);
    while (lock->changes == seen)
        pthread_cond_wait(&lock->changed, &lock->mutex);
    pthread_mutex_unlock(&lock->mutex);
    gpur_quick_lock_take(lock);
    lock->sleepers--;
}

void gpur_quick_lock_wake_all(gpur_quick_lock *lock)
{
    pthread_mutex_lock(&lock->mutex);
    lock->changes++;
    pthread_cond_broadcast(&lock->changed);
    pthread_mutex_unlock(&lock->mutex);
}
