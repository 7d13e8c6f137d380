/* SPDX-License-Identifier: MIT */
/* Threads with numbered jobs. */
#include "run/fast_dqn/job_thread.h"

#include "base/thread.h"

#include <stdatomic.h>
#include <stdio.h>

/* Requires the lock. Waits for jobs; 0: the thread is to end. */
static int next_jobs(gpur_job_thread *thread, int64_t *first, int64_t *last)
{
    while ((thread->done == thread->wanted || thread->is_paused) && !thread->quits)
        gpur_mutex_wait(&thread->lock);
    *first = thread->done + 1;
    *last = thread->wanted;
    return !thread->quits;
}

/* Requires the lock, and releases it meanwhile. */
static void carry_out(gpur_job_thread *thread, int64_t first, int64_t last)
{
    gpur_status status = thread->status;
    int64_t done = last;
    gpur_mutex_unlock(&thread->lock);
    if (status == GPUR_OK)
        status = thread->jobs(thread->context, first, last, &done);
    if (status != GPUR_OK)
        atomic_store(thread->failing, 1);
    gpur_mutex_lock(&thread->lock);
    if (thread->status == GPUR_OK && status != GPUR_OK)
        snprintf(thread->error, sizeof thread->error, "%s", gpur_last_error());
    thread->status = status;
    thread->done = status == GPUR_OK ? done : last;
    thread->is_paused = thread->done < last;
}

static void *work(void *context)
{
    gpur_job_thread *const thread = context;
    int64_t first, last;
    gpur_mutex_lock(&thread->lock);
    while (next_jobs(thread, &first, &last)) {
        carry_out(thread, first, last);
        gpur_mutex_notify_all(&thread->lock);
    }
    gpur_mutex_unlock(&thread->lock);
    return NULL;
}

gpur_status gpur_job_thread_open(gpur_job_thread *thread, gpur_jobs jobs, void *context, _Atomic int *failing,
                                 const char *what)
{
    *thread = (gpur_job_thread){.jobs = jobs, .context = context, .failing = failing};
    GPUR_TRY(gpur_mutex_open(&thread->lock, what));
    GPUR_TRY(gpur_thread_start(&thread->thread, work, thread, what));
    thread->is_started = 1;
    return GPUR_OK;
}

void gpur_job_thread_close(gpur_job_thread *thread)
{
    if (thread->is_started) {
        gpur_mutex_lock(&thread->lock);
        thread->quits = 1;
        gpur_mutex_notify_all(&thread->lock);
        gpur_mutex_unlock(&thread->lock);
        pthread_join(thread->thread, NULL);
    }
    gpur_mutex_close(&thread->lock);
    *thread = (gpur_job_thread){0};
}

void gpur_job_thread_want(gpur_job_thread *thread, int64_t last)
{
    if (thread->wanted == last) /* which only the owner writes */
        return;
    gpur_mutex_lock(&thread->lock);
    thread->wanted = last;
    gpur_mutex_notify_all(&thread->lock);
    gpur_mutex_unlock(&thread->lock);
}

void gpur_job_thread_run_here(gpur_job_thread *thread, int64_t last)
{
    gpur_mutex_lock(&thread->lock);
    thread->wanted = last;
    thread->is_paused = 1; /* so that the thread sleeps on */
    carry_out(thread, thread->done + 1, last);
    gpur_mutex_unlock(&thread->lock);
}

int gpur_job_thread_wait(gpur_job_thread *thread)
{
    if (!thread->is_started)
        return 1;
    gpur_mutex_lock(&thread->lock);
    while (thread->done != thread->wanted && !thread->is_paused)
        gpur_mutex_wait(&thread->lock);
    const int are_done = thread->done == thread->wanted;
    gpur_mutex_unlock(&thread->lock);
    return are_done;
}

int gpur_job_thread_is_busy(gpur_job_thread *thread)
{
    gpur_mutex_lock(&thread->lock);
    const int is_busy = thread->done != thread->wanted && !thread->is_paused;
    gpur_mutex_unlock(&thread->lock);
    return is_busy;
}

gpur_status gpur_job_thread_check(const gpur_job_thread *thread)
{
    return thread->status == GPUR_OK ? GPUR_OK : gpur_fail(thread->status, "%s", thread->error);
}

void gpur_job_thread_resume(gpur_job_thread *thread, int64_t last)
{
    if (!thread->is_started)
        return;
    gpur_mutex_lock(&thread->lock);
    thread->wanted = last;
    thread->done = thread->done < last ? thread->done : last;
    thread->is_paused = 0;
    gpur_mutex_notify_all(&thread->lock);
    gpur_mutex_unlock(&thread->lock);
}

void gpur_job_thread_restart_at(gpur_job_thread *thread, int64_t done)
{
    if (!thread->is_started)
        return;
    gpur_mutex_lock(&thread->lock);
    thread->done = thread->wanted = done;
    thread->is_paused = 0;
    thread->status = GPUR_OK;
    gpur_mutex_unlock(&thread->lock);
}
