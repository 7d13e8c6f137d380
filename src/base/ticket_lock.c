/* SPDX-License-Identifier: MIT */
#include "base/ticket_lock.h"

#include "base/mutex.h"

gpur_status gpur_ticket_lock_open(gpur_ticket_lock *lock, const char *what)
{
    atomic_init(&lock->next, 0);
    atomic_init(&lock->serving, 0);
    if (pthread_mutex_init(&lock->mutex, NULL) != 0 || pthread_cond_init(&lock->moved, NULL) != 0)
        return gpur_fail(GPUR_OUT_OF_MEMORY, "no lock for %s: the system has no more of them", what);
    return GPUR_OK;
}

void gpur_ticket_lock_close(gpur_ticket_lock *lock)
{
    pthread_cond_destroy(&lock->moved);
    pthread_mutex_destroy(&lock->mutex);
}

/* Plain increment, for a process with only one thread. */
static void count_single_threaded(_Atomic uint64_t *counter)
{
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + 1, memory_order_relaxed);
}

static void wait_until_served(gpur_ticket_lock *lock, uint64_t ticket)
{
    pthread_mutex_lock(&lock->mutex);
    while (atomic_load(&lock->serving) != ticket)
        pthread_cond_wait(&lock->moved, &lock->mutex);
    pthread_mutex_unlock(&lock->mutex);
}

void gpur_ticket_lock_lock(gpur_ticket_lock *lock)
{
    if (GPUR_SINGLE_THREADED) {
        count_single_threaded(&lock->next);
        return;
    }
    const uint64_t ticket = atomic_fetch_add(&lock->next, 1);
    if (atomic_load(&lock->serving) != ticket)
        wait_until_served(lock, ticket);
}

/* The unlocker either sees the ticket of a thread that is about to sleep, and wakes it, or that thread sees that it is
 * being served. Both sides write before they read, all sequentially consistent (as in Dekker's algorithm). */
void gpur_ticket_lock_unlock(gpur_ticket_lock *lock)
{
    if (GPUR_SINGLE_THREADED) {
        count_single_threaded(&lock->serving);
        return;
    }
    const uint64_t following = atomic_fetch_add(&lock->serving, 1) + 1;
    if (atomic_load(&lock->next) == following)
        return;
    pthread_mutex_lock(&lock->mutex);
    pthread_cond_broadcast(&lock->moved);
    pthread_mutex_unlock(&lock->mutex);
}

int64_t gpur_ticket_lock_users(gpur_ticket_lock *lock)
{
    const uint64_t served = atomic_load(&lock->serving);
    return (int64_t)(atomic_load(&lock->next) - served);
}
