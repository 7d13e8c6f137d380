/* SPDX-License-Identifier: MIT */
/*
 * Helper threads of a CPU device. The calling thread works through its job piece by piece, and helpers take pieces as
 * long as there are any. The caller never waits for a helper that has not begun a piece: if other processes keep the
 * cores busy and helpers start late or never, the caller has done the work itself. If helpers turn out to be useless
 * (they start late, run on the caller's core, or lose their core in the middle of a piece), the caller works alone for
 * a while before it uses them again: for ten times the time lost, doubled at each failure that follows soon, and at
 * most half a second.
 *
 * Cores may be near each other or far apart: on another socket, or wherever a hypervisor put them. A far core needs
 * several times as long to fetch data from this core's cache; GEMMs of a small network took twice as long with a far
 * helper as without one. How far helpers are is measured by the time from handing over a job to a helper's start.
 *
 * Results must not depend on which thread runs a piece, or when.
 */
#pragma once

#include "base/platform.h"
#include "device/backend.h"
#include "kernels/entries.h"

#include <stdalign.h>

typedef struct gpur_helpers {
    gpur_device *device;
    pthread_t *threads; /* (limit), the first `started` of which run */
    int32_t limit;      /* maximum number of helpers */
    int32_t started;    /* accessed only by the thread that has set `owner`, and when closing */
    int cannot_start;   /* 1: starting a thread failed; no other is tried */
    atomic_int closing;
    _Atomic uint64_t owner; /* 2 * gpur_forks() of the process that has these helpers, + 1 while a caller uses them */
    gpur_cpu_entry run;     /* the job of that caller */
    const void *args;
    int64_t pieces;
    atomic_int core;                       /* core on which the caller began the job */
    int64_t useless_since;                 /* start of the first of the latest jobs without a useful helper; 0: no such
                                              job */
    int64_t disabled_until;                /* time (monotonic, ns) until which callers work without helpers */
    int64_t disabled_for;                  /* length of that backoff in ns */
    int64_t far_until;                     /* time until which helpers get no GPUR_IN_CACHE jobs, because they are
                                              far */
    int far_tries;                         /* such jobs run with helpers since then, to measure the distance again */
    int64_t began;                         /* when this job was handed over */
    _Atomic int64_t distance;              /* ns until an awake helper begins: running median, initially 0 */
    atomic_int useful;                     /* 1: a helper on another core took a piece of this job */
    gpur_semaphore finished_all;           /* wakes the caller */
    gpur_semaphore work;                   /* wakes helpers, one per post */
    alignas(64) _Atomic int64_t unclaimed; /* pieces of the job that no thread has begun */
    alignas(64) _Atomic int64_t unwaited;  /* pieces finished by helpers, minus the number the caller waits for */
    alignas(64) _Atomic int32_t asleep;    /* helpers that sleep or are about to, and are not being woken */
} gpur_helpers;

/* `threads` includes the caller. Helpers are started one at a time, when there are jobs that they could share. If a
 * thread cannot be started, the caller does without it. */
gpur_status gpur_helpers_open(gpur_helpers *helpers, gpur_device *device, int32_t threads);
void gpur_helpers_close(gpur_helpers *helpers); /* accepts a zeroed one */

/* Where a job's operands are likely to be: a helper on a far core has to fetch them. */
enum {
    GPUR_IN_MEMORY = 0, /* or each byte is used in many operations */
    GPUR_IN_CACHE = 1,  /* in the cache of the calling thread's core */
};

/* Runs every piece once, on any thread, and returns when all are done. Any thread may call this. Helpers serve one
 * caller at a time; another caller at the same time runs its pieces alone. */
void gpur_helpers_run(gpur_helpers *helpers, int64_t pieces, int where, gpur_cpu_entry run, const void *args);
