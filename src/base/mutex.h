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
#ifndef GPUR_BASE_MUTEX_H
#define GPUR_BASE_MUTEX_H

#include "base/status.h"

#include <limits.h> /* any libc header would do: it defines the version of glibc */
#include <pthread.h>
#include <stdatomic.h>

#if defined(__GLIBC__) && (__GLIBC__ > 2 || __GLIBC_MINOR__ >= 32)
#include <sys/single_threaded.h>
#define GPUR_IS_ALONE __libc_single_threaded
#else
#define GPUR_IS_ALONE 0
#endif


enum { GPUR_LOCK_FREE, GPUR_LOCK_HELD, GPUR_LOCK_WANTED /* locked, and threads may be waiting for it */ };

typedef struct gpur_quick_lock {
    atomic_int state;      /* GPUR_LOCK_* */
    int32_t sleepers;      /* threads in gpur_quick_lock_sleep; protected by the lock */
    pthread_mutex_t mutex; /* for threads that wait or wake others; none holds it while it waits for the lock */
    pthread_cond_t given, changed;
    uint64_t changes; /* protected by `mutex` */
} gpur_quick_lock;

gpur_status gpur_quick_lock_open(gpur_quick_lock *lock, const char *what);
void gpur_quick_lock_close(gpur_quick_lock *lock); /* accepts a zeroed one */

/* Slow paths of lock and unlock, for when another thread holds the lock or waits for it. */
void gpur_quick_lock_take_late(gpur_quick_lock *lock);
void gpur_quick_lock_wake_next(gpur_quick_lock *lock);

/* Returns 1 if this thread now holds the lock, 0 if another thread holds it. */
static inline int gpur_quick_lock_try(gpur_quick_lock *lock)
{
    int is = GPUR_LOCK_FREE;
    if (!GPUR_IS_ALONE)
        return atomic_compare_exchange_strong_explicit(&lock->state, &is, GPUR_LOCK_HELD, memory_order_acquire,
                                                       memory_order_relaxed);
    if (atomic_load_explicit(&lock->state, memory_order_relaxed) != GPUR_LOCK_FREE)
        return 0;
    atomic_store_explicit(&lock->state, GPUR_LOCK_HELD, memory_order_relaxed);
    return 1;
}

static inline void gpur_quick_lock_take(gpur_quick_lock *lock)
{
    if (!gpur_quick_lock_try(lock))
        gpur_quick_lock_take_late(lock);
}

static inline void gpur_quick_lock_give(gpur_quick_lock *lock)
{
    if (GPUR_IS_ALONE)
        atomic_store_explicit(&lock->state, GPUR_LOCK_FREE, memory_order_relaxed);
    else if (atomic_exchange_explicit(&lock->state, GPUR_LOCK_FREE, memory_order_release) == GPUR_LOCK_WANTED)
        gpur_quick_lock_wake_next(lock);
}

/* Requires the lock. Releases it, waits for gpur_quick_lock_tell and takes it again. May also return without a
 * notification, so the caller tests its condition in a loop. */
void gpur_quick_lock_sleep(gpur_quick_lock *lock);

/* Slow path of gpur_quick_lock_tell. Requires the lock. */
void gpur_quick_lock_wake_all(gpur_quick_lock *lock);

/* Wakes all threads in gpur_quick_lock_sleep. Requires the lock. */
static inline void gpur_quick_lock_tell(gpur_quick_lock *lock)
{
    if (lock->sleepers > 0)
        gpur_quick_lock_wake_all(lock);
}

#endif
