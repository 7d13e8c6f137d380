/* SPDX-License-Identifier: MIT */
/*
 * A ticket lock: threads get it in the order in which they asked [Mellor-Crummey & Scott 1991]. A plain mutex is
 * unfair: a thread that locks it again at once gets it before the thread that it has just woken.
 */
#pragma once

#include "base/status.h"

#include <pthread.h>
#include <stdatomic.h>

typedef struct gpur_ticket_lock {
    _Atomic uint64_t next;    /* ticket of the next thread that asks */
    _Atomic uint64_t serving; /* ticket of the thread that holds the lock or may take it */
    pthread_mutex_t mutex;    /* for threads that sleep and threads that wake them */
    pthread_cond_t moved;
} gpur_ticket_lock;

gpur_status gpur_ticket_lock_open(gpur_ticket_lock *lock, const char *what);
void gpur_ticket_lock_close(gpur_ticket_lock *lock); /* accepts a zeroed one */

void gpur_ticket_lock_lock(gpur_ticket_lock *lock);
void gpur_ticket_lock_unlock(gpur_ticket_lock *lock);

/* Returns the number of threads that hold the lock or wait for it, as of some moment during the call. */
int64_t gpur_ticket_lock_users(gpur_ticket_lock *lock);
