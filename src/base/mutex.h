/* SPDX-License-Identifier: MIT */
/*
 * A mutex with a condition variable, for critical sections of a few nanoseconds. While no thread waits, locking and
 * unlocking are one inlined atomic instruction each [Drepper 2011, section 5; a pthread mutex and a condition variable
 * stand for the kernel's wait queue]. It is not fair: any thread may take a released lock.
 *
 * With glibc >= 2.32, __libc_single_threaded tells that the process has only one thread; plain loads and stores then
 * replace the atomic instructions, as in glibc's own mutexes. That saves about 7 ns a lock; sampling a batch takes four
 * locks.
 */
#pragma once

#include "base/status.h"

#include <limits.h> /* any libc header would do: it defines the version of glibc */
#include <pthread.h>
#include <stdatomic.h>

#if defined(__GLIBC__) && (__GLIBC__ > 2 || __GLIBC_MINOR__ >= 32)
#include <sys/single_threaded.h>
#define GPUR_SINGLE_THREADED __libc_single_threaded
#else
#define GPUR_SINGLE_THREADED 0
#endif

enum { GPUR_MUTEX_FREE, GPUR_MUTEX_LOCKED, GPUR_MUTEX_CONTENDED /* locked, and threads may be waiting for it */ };

typedef struct gpur_mutex {
    atomic_int state;      /* GPUR_MUTEX_* */
    int32_t waiters;       /* threads in gpur_mutex_wait; protected by the lock */
    pthread_mutex_t mutex; /* for threads that wait or wake others; none holds it while it waits for the lock */
    pthread_cond_t unlocked, notified;
    uint64_t notifications; /* protected by `mutex` */
} gpur_mutex;

gpur_status gpur_mutex_open(gpur_mutex *lock, const char *what);
void gpur_mutex_close(gpur_mutex *lock); /* accepts a zeroed one */

/* Slow paths of lock and unlock, for when another thread holds the lock or waits for it. */
void gpur_mutex_lock_slow(gpur_mutex *lock);
void gpur_mutex_unlock_slow(gpur_mutex *lock);

/* Returns 1 if this thread now holds the lock, 0 if another thread holds it. */
static inline int gpur_mutex_try_lock(gpur_mutex *lock)
{
    int is = GPUR_MUTEX_FREE;
    if (!GPUR_SINGLE_THREADED)
        return atomic_compare_exchange_strong_explicit(&lock->state, &is, GPUR_MUTEX_LOCKED, memory_order_acquire,
                                                       memory_order_relaxed);
    if (atomic_load_explicit(&lock->state, memory_order_relaxed) != GPUR_MUTEX_FREE)
        return 0;
    atomic_store_explicit(&lock->state, GPUR_MUTEX_LOCKED, memory_order_relaxed);
    return 1;
}

static inline void gpur_mutex_lock(gpur_mutex *lock)
{
    if (!gpur_mutex_try_lock(lock))
        gpur_mutex_lock_slow(lock);
}

static inline void gpur_mutex_unlock(gpur_mutex *lock)
{
    if (GPUR_SINGLE_THREADED)
        atomic_store_explicit(&lock->state, GPUR_MUTEX_FREE, memory_order_relaxed);
    else if (atomic_exchange_explicit(&lock->state, GPUR_MUTEX_FREE, memory_order_release) == GPUR_MUTEX_CONTENDED)
        gpur_mutex_unlock_slow(lock);
}

/* Requires the lock. Releases it, waits for gpur_mutex_notify_all and takes it again. May also return without a
 * notification, so the caller tests its condition in a loop. */
void gpur_mutex_wait(gpur_mutex *lock);

/* The same, but waits for so many seconds at most. */
void gpur_mutex_wait_for(gpur_mutex *lock, double seconds);

/* Slow path of gpur_mutex_notify_all. Requires the lock. */
void gpur_mutex_notify_slow(gpur_mutex *lock);

/* Wakes all threads in gpur_mutex_wait. Requires the lock. */
static inline void gpur_mutex_notify_all(gpur_mutex *lock)
{
    if (lock->waiters > 0)
        gpur_mutex_notify_slow(lock);
}
