/* SPDX-License-Identifier: MIT */
/*
 * A thread that carries out numbered jobs 1, 2, ... in their order. Its owner says how far it may go, and waits for it.
 * A thread that is told to pause stops between two jobs, and goes on when it is resumed. An error ends it: jobs that
 * were wanted afterwards are passed over, and a flag that threads share tells the others.
 */
#pragma once

#include "base/mutex.h"

/* Carries out the jobs first to last, in the thread. *done is last, and becomes less if it pauses before. */
typedef gpur_status (*gpur_jobs)(void *context, int64_t first, int64_t last, int64_t *done);

enum { GPUR_JOB_ERROR = 1024 };

typedef struct gpur_job_thread {
    gpur_jobs jobs;
    void *context;
    _Atomic int *failing;
    pthread_t thread;
    int is_started;
    gpur_mutex lock;      /* protects what follows */
    int64_t wanted, done; /* numbers of the last job that may be carried out, and that was */
    int is_paused;        /* it has stopped before the last job that was wanted */
    int quits;
    gpur_status status; /* of the jobs so far, with its message */
    char error[GPUR_JOB_ERROR];
} gpur_job_thread;

/* *failing becomes 1 when a job fails. `what` names the thread in an error. After a failure call
 * gpur_job_thread_close. */
gpur_status gpur_job_thread_open(gpur_job_thread *thread, gpur_jobs jobs, void *context, _Atomic int *failing,
                                 const char *what);

/* Waits for the job that is carried out; accepts a zeroed one. */
void gpur_job_thread_close(gpur_job_thread *thread);

/* Lets it go as far as job `last`. Does nothing if it may already. */
void gpur_job_thread_want(gpur_job_thread *thread, int64_t last);

/* Carries out the jobs up to `last` in the calling thread, of a thread that does nothing: waking it would take longer
 * than short jobs do. Errors and pauses are the thread's. */
void gpur_job_thread_run_here(gpur_job_thread *thread, int64_t last);

/* Waits until all wanted jobs are done, or the thread has paused: 1 if they are done. Accepts a zeroed thread. */
int gpur_job_thread_wait(gpur_job_thread *thread);

/* 1: wanted jobs are not done, and the thread has not paused. */
int gpur_job_thread_is_busy(gpur_job_thread *thread);

/* Returns the status of the first job that failed, with its message. Only after gpur_job_thread_wait. */
gpur_status gpur_job_thread_check(const gpur_job_thread *thread);

/* Sets the last job that is wanted, and lets a thread go on that has paused. Jobs after `last` count as not done. Only
 * while the thread does nothing. */
void gpur_job_thread_resume(gpur_job_thread *thread, int64_t last);

/* Sets the number of the last job that was done, which the next one follows, and forgets an error. Only while the
 * thread does nothing. */
void gpur_job_thread_restart_at(gpur_job_thread *thread, int64_t done);
