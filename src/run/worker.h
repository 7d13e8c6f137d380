/* SPDX-License-Identifier: MIT */
/* A thread that carries out numbered jobs 1, 2, ... in their order. Its owner says how far it may go, and waits for it.
 * An error ends it: jobs that were wanted afterwards are passed over, and a flag that workers share tells the others
 * to stop. */
#pragma once

#include "base/mutex.h"

/* Carries out the jobs first to last; in the worker's thread. */
typedef gpur_status (*gpur_worker_jobs)(void *context, int64_t first, int64_t last);

enum { GPUR_WORKER_ERROR = 1024 };

typedef struct gpur_worker {
    gpur_worker_jobs jobs;
    void *context;
    _Atomic int *stopping;
    pthread_t thread;
    int is_started;
    gpur_mutex lock;      /* protects what follows */
    int64_t wanted, done; /* numbers of the last job that may be carried out, and that was */
    int quits;
    gpur_status status; /* of the jobs so far, with its message */
    char error[GPUR_WORKER_ERROR];
} gpur_worker;

/* `stopping` becomes 1 when a job fails. `what` names the thread in an error. After a failure call
 * gpur_worker_close. */
gpur_status gpur_worker_open(gpur_worker *worker, gpur_worker_jobs jobs, void *context, _Atomic int *stopping,
                             const char *what);
void gpur_worker_close(gpur_worker *worker); /* waits for the job that is carried out; accepts a zeroed one */

/* Sets the number of the last job that was done, which the next one follows. Only while no job is wanted. */
void gpur_worker_restart_at(gpur_worker *worker, int64_t done);

/* Lets it go as far as job `last`. Does nothing if it may already. */
void gpur_worker_want(gpur_worker *worker, int64_t last);

/* Waits until all wanted jobs are done. Accepts a zeroed worker. */
void gpur_worker_wait(gpur_worker *worker);

/* The same. Returns the status of the first job that failed, with its message. */
gpur_status gpur_worker_join(gpur_worker *worker);
