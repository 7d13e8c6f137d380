/* SPDX-License-Identifier: MIT */
/* glibc tells when the process has no second thread, and spares its own mutexes the atomic instructions then, too: some
 * 7 ns a lock, of which the draw of a batch takes four. */
#ifndef GPUR_BASE_MUTEX_H
#define GPUR_BASE_MUTEX_H

#include "base/status.h"

#include <limits.h> /* or any other of libc, for its version */
#include <pthread.h>
#include <stdatomic.h>

#if defined(__GLIBC__) && (__GLIBC__ > 2 || __GLIBC_MINOR__ >= 32)
#include <sys/single_threaded.h>
#define GPUR_IS_ALONE __libc_single_threaded
#else
#define GPUR_IS_ALONE 0
#endif

/*
 * A lock for what is done in a few nanoseconds, and a condition to wait for under it: one atomic instruction to take
 * it, and one to give it, without a call, while nobody waits [Drepper 2011, section 5; a mutex and a condition stand
 * for the kernel's wait queue]. It goes to whoever comes first.
 */

enum { GPUR_LOCK_FREE, GPUR_LOCK_HELD, GPUR_LOCK_WANTED /* held, and some may sleep until it is given */ };

typedef struct gpur_quick_lock {
    atomic_int state;      /* GPUR_LOCK_* */
    int32_t sleepers;      /* threads in gpur_quick_lock_sleep; under the lock */
    pthread_mutex_t mutex; /* of those who sleep and those who wake them; nobody waits for the lock with it held */
    pthread_cond_t given, changed;
    uint64_t changes; /* under the mutex */
} gpur_quick_lock;

gpur_status gpur_quick_lock_open(gpur_quick_lock *lock, const char *what);
void gpur_quick_lock_close(gpur_quick_lock *lock); /* tolerates one that is all zeros */

/* The rest of a take or give that met another thread. */
void gpur_quick_lock_take_late(gpur_quick_lock *lock);
void gpur_quick_lock_wake_next(gpur_quick_lock *lock);

/* 1: taken; 0: another thread holds it. */
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

/* With the lock held: gives it until somebody tells of a change, or for no reason at all. */
void gpur_quick_lock_sleep(gpur_quick_lock *lock);

/* With the lock held. */
void gpur_quick_lock_wake_all(gpur_quick_lock *lock);

static inline void gpur_quick_lock_tell(gpur_quick_lock *lock)
{
    if (lock->sleepers > 0)
        gpur_quick_lock_wake_all(lock);
}

#endif
