/* SPDX-License-Identifier: MIT */
#include "base/fork.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

static _Atomic uint32_t forks;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int is_watched;

static void count_fork(void)
{
    atomic_fetch_add(&forks, 1);
}

/* The fork handler holds the mutex during a fork: had another thread locked it at that moment, it would stay locked in
 * the child forever. */
static void before_fork(void)
{
    pthread_mutex_lock(&mutex);
}

static void after_fork_in_parent(void)
{
    pthread_mutex_unlock(&mutex);
}

static void after_fork_in_child(void)
{
    count_fork();
    pthread_mutex_unlock(&mutex);
}

gpur_status gpur_forks_count_from_now(void)
{
    int error = 0;
    pthread_mutex_lock(&mutex);
    if (!is_watched)
        error = pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
    is_watched = is_watched || !error;
    pthread_mutex_unlock(&mutex);
    return error ? gpur_fail(GPUR_OUT_OF_MEMORY, "pthread_atfork: %s", strerror(error)) : GPUR_OK;
}

uint32_t gpur_forks(void)
{
    return atomic_load_explicit(&forks, memory_order_relaxed);
}
