/* SPDX-License-Identifier: MIT */
#include "run/fast_dqn/job_thread.h"

#include "base/thread.h"

#include <stdatomic.h>
#include <stdio.h>

/* Requires the lock. Waits for jobs; 0: the worker is to end. */
static int next_jobs(gpur_job_thread *worker, int64_t *first, int64_t *last)
{
    while (worker->done == worker->wanted && !worker->quits)
        gpur_mutex_wait(&worker->lock);
    *first = worker->done + 1;
    *last = worker->wanted;
    return !worker->quits;
}

static void *work(void *context)
{
    gpur_job_thread *const worker = context;
    int64_t first, last;
    gpur_mutex_lock(&worker->lock);
    while (next_jobs(worker, &first, &last)) {
        gpur_status status = worker->status;
        gpur_mutex_unlock(&worker->lock);
        if (status == GPUR_OK)
            status = worker->jobs(worker->context, first, last);
        if (status != GPUR_OK)
            atomic_store(worker->stopping, 1);
        gpur_mutex_lock(&worker->lock);
        if (worker->status == GPUR_OK && status != GPUR_OK)
            snprintf(worker->error, sizeof worker->error, "%s", gpur_last_error());
        worker->status = status;
        worker->done = last;
        gpur_mutex_notify_all(&worker->lock);
    }
    gpur_mutex_unlock(&worker->lock);
    return NULL;
}

gpur_status gpur_job_thread_open(gpur_job_thread *worker, gpur_job_thread_jobs jobs, void *context,
                                 _Atomic int *stopping, const char *what)
{
    *worker = (gpur_job_thread){.jobs = jobs, .context = context, .stopping = stopping};
    GPUR_TRY(gpur_mutex_open(&worker->lock, what));
    GPUR_TRY(gpur_thread_start(&worker->thread, work, worker, what));
    worker->is_started = 1;
    return GPUR_OK;
}

void gpur_job_thread_close(gpur_job_thread *worker)
{
    if (worker->is_started) {
        gpur_mutex_lock(&worker->lock);
        worker->quits = 1;
        gpur_mutex_notify_all(&worker->lock);
        gpur_mutex_unlock(&worker->lock);
        pthread_join(worker->thread, NULL);
    }
    gpur_mutex_close(&worker->lock);
    *worker = (gpur_job_thread){0};
}

void gpur_job_thread_restart_at(gpur_job_thread *worker, int64_t done)
{
    gpur_mutex_lock(&worker->lock);
    worker->done = worker->wanted = done;
    gpur_mutex_unlock(&worker->lock);
}

void gpur_job_thread_want(gpur_job_thread *worker, int64_t last)
{
    if (worker->wanted == last) /* which only the owner writes */
        return;
    gpur_mutex_lock(&worker->lock);
    worker->wanted = last;
    gpur_mutex_notify_all(&worker->lock);
    gpur_mutex_unlock(&worker->lock);
}

void gpur_job_thread_wait(gpur_job_thread *worker)
{
    if (!worker->is_started)
        return;
    gpur_mutex_lock(&worker->lock);
    while (worker->done != worker->wanted)
        gpur_mutex_wait(&worker->lock);
    gpur_mutex_unlock(&worker->lock);
}

gpur_status gpur_job_thread_join(gpur_job_thread *worker)
{
    gpur_job_thread_wait(worker); /* after that the thread writes nothing until more is wanted */
    return worker->status == GPUR_OK ? GPUR_OK : gpur_fail(worker->status, "%s", worker->error);
}
