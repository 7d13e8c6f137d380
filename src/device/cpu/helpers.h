/* SPDX-License-Identifier: MIT */
/*
 * Helper threads of a CPU device. The calling thread carries out its work itself, piece by piece, and helpers take
 * pieces while there are any. The caller waits for no helper that has not begun a piece: where other processes keep
 * the cores busy and helpers come late or not at all, the caller has done the work. Where helpers turn out to be of no
 * use, since they come late, run on the caller's own core, or lose their core in the middle of a piece, the caller
 * works alone for some time before it asks them again: ten times as long as was lost, twice as long at each failure
 * that follows soon, and half a second at most.
 *
 * Cores may be near each other or far: on another socket, or where a hypervisor has put them. What a core has in its
 * cache takes several times as long to a far one, and products of a small network took twice as long with a far helper
 * as without. How far helpers are is seen in how long a handing over takes.
 *
 * Which thread runs a piece, and when, must not matter to the result.
 */
#ifndef GPUR_DEVICE_CPU_HELPERS_H
#define GPUR_DEVICE_CPU_HELPERS_H

#include "device/backend.h"
#include "kernels/entries.h"

#include <semaphore.h>
#include <stdalign.h>

typedef struct gpur_helpers {
    gpur_device *device;
    pthread_t *threads; /* (limit), of which `started` run */
    int32_t limit;      /* the most helpers there may be */
    int32_t started;    /* read and written by who has `owner`, and at the end */
    int cannot_start;   /* a thread could not be started; no other is tried */
    atomic_int closing;
    _Atomic uint64_t owner; /* 2 * gpur_forks() of the process whose helpers these are, + 1 while a caller has them */
    gpur_cpu_entry run;     /* the work of that caller */
    const void *args;
    int64_t pieces;
    atomic_int core;          /* on which the caller began */
    int64_t in_vain_since;    /* when the first of the works in a row began in which no helper was of use; 0: none */
    int64_t alone_until;      /* nanoseconds of the monotonic clock: until then callers do not ask helpers */
    int64_t alone_for;        /* how long that was */
    int64_t far_until;        /* until then not with works of GPUR_IN_CACHE, since helpers are far */
    int far_tries;            /* such works since then, to see whether they still are */
    int64_t began;            /* when this work was handed over */
    _Atomic int64_t distance; /* nanoseconds until a helper that is awake has begun: the median, from 0 on */
    atomic_int useful;        /* 1: a helper on another core took a piece of this work */
    sem_t finished_all;       /* wakes the caller */
    sem_t work;               /* wakes helpers, one each */
    alignas(64) _Atomic int64_t unclaimed; /* pieces of the work that nobody has begun */
    alignas(64) _Atomic int64_t unwaited;  /* pieces that helpers have finished, less those the caller asked for */
    alignas(64) _Atomic int32_t asleep;    /* helpers that sleep, or are about to, and are not being woken */
} gpur_helpers;

/* `threads` counts the caller. Helpers are started one by one, as work comes that they could share. A thread that
 * cannot be started is done without. */
gpur_status gpur_helpers_open(gpur_helpers *helpers, gpur_device *device, int32_t threads);
void gpur_helpers_close(gpur_helpers *helpers); /* takes what is all zeros */

/* Where the work's operands are likely to be, which a helper on a far core has to fetch. */
enum {
    GPUR_IN_MEMORY = 0, /* or there are many operations for each of their bytes */
    GPUR_IN_CACHE = 1,  /* in that of the calling thread's core */
};

/* Runs every piece once, by whichever thread, and returns when all are done. Any thread. One caller at a time has the
 * helpers; another that comes meanwhile does its pieces alone. */
void gpur_helpers_run(gpur_helpers *helpers, int64_t pieces, int where, gpur_cpu_entry run, const void *args);

#endif
