/* SPDX-License-Identifier: MIT */
/* Starting threads of the library. */
#pragma once

#include "base/status.h"

#include <pthread.h>

/* Start a thread of the library. It blocks all signals but those of crashes and of profilers, because signals belong to
 * the host program. gpur_thread_create returns what pthread_create returns and leaves the thread-local error text
 * unchanged; gpur_thread_start returns GPUR_OUT_OF_MEMORY if the system has no more threads. */
int gpur_thread_create(pthread_t *thread, void *(*run)(void *), void *context);
gpur_status gpur_thread_start(pthread_t *thread, void *(*run)(void *), void *context, const char *what);
