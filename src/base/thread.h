/* SPDX-License-Identifier: MIT */
#ifndef GPUR_BASE_THREAD_H
#define GPUR_BASE_THREAD_H

#include "base/status.h"

#include <pthread.h>
#include <semaphore.h>

/* Starts a thread of the library's own. Signals are the host program's: none is ever delivered to it. The first answers
 * as pthread_create does, and leaves the text of the caller's last error alone. GPUR_OUT_OF_MEMORY: the system has no
 * more threads. */
int gpur_thread_create(pthread_t *thread, void *(*run)(void *), void *context);
gpur_status gpur_thread_start(pthread_t *thread, void *(*run)(void *), void *context, const char *what);

/* sem_wait that signals do not cut short. */
void gpur_semaphore_wait(sem_t *semaphore);

#endif
