/* SPDX-License-Identifier: MIT */
/*
 * A lock that goes to those who wait in the order in which they asked [a ticket lock: Mellor-Crummey & Scott 1991]. A
 * plain mutex goes to whoever runs: a thread that takes it again at once has it again before the one that it woke.
 */
#ifndef GPUR_BASE_TICKET_LOCK_H
#define GPUR_BASE_TICKET_LOCK_H

#include "base/status.h"

#include <pthread.h>
#include <stdatomic.h>

typedef struct gpur_fair_lock {
    _Atomic uint64_t next;    /* ticket of whoever asks next */
    _Atomic uint64_t serving; /* ticket of whoever holds the lock, or may have it */
    pthread_mutex_t mutex;    /* of those who sleep and those who wake them */
    pthread_cond_t moved;
} gpur_fair_lock;

gpur_status gpur_fair_lock_open(gpur_fair_lock *lock, const char *what);
void gpur_fair_lock_close(gpur_fair_lock *lock); /* tolerates one that is all zeros */

void gpur_fair_lock_take(gpur_fair_lock *lock);
void gpur_fair_lock_give(gpur_fair_lock *lock);

/* Threads that hold it or wait for it. True at some moment of the call. */
int64_t gpur_fair_lock_users(gpur_fair_lock *lock);

#endif
