/* SPDX-License-Identifier: MIT */
/* A thread that carries out numbered jobs 1, 2, ... in their order. Its owner says how far it may go, and waits for it.
 * An error ends it: jobs that were wanted afterwards are passed over, and a flag that workers share tells the others
 * to stop. */
#pragma once

#include "base/mutex.h"

/* Carries out the jobs first to last; in the worker's thread. */
typedef gpur_status (*gpur_job_thread_jobs)(void *context, int64_t first, int64_t last);

enum { GPUR_JOB_ERROR = 1024 };

typedef struct gpur_job_thread {
    gpur_job_thread_jobs jobs;
    void *context;
    _Atomic int *stopping;
    pthread_t thread;
    int is_started;
    gpur_mutex lock;      /* protects what follows */
    int64_t wanted, done; /* numbers of the last job that may be carried out, and that was */
    int quits;
    gpur_status status; /* of the jobs so far, with its message */
    char error[GPUR_JOB_ERROR];
} gpur_job_thread;

/* `stopping` becomes 1 when a job fails. `what` names the thread in an error. After a failure call
 * gpur_job_thread_close. */
gpur_status gpur_job_thread_open(gpur_job_thread *worker, gpur_job_thread_jobs jobs, void *context,
                                 _Atomic int *stopping, const char *what);
void gpur_job_thread_close(gpur_job_thread *worker); /* waits for the job that is carried out; accepts a zeroed one */

/* Sets the number of the last job that was done, which the next one follows. Only while no job is wanted. */
void gpur_job_thread_restart_at(gpur_job_thread *worker, int64_t done);

/* Lets it go as far as job `last`. Does nothing if it may already. */
void gpur_job_thread_want(gpur_job_thread *worker, int64_t last);

/* Waits until all wanted jobs are done. Accepts a zeroed worker. */
void gpur_job_thread_wait(gpur_job_thread *worker);

/* The same. Returns the status of the first job that failed, with its message. */
gpur_status gpur_job_thread_join(gpur_job_thread *worker);
