/* SPDX-License-Identifier: MIT */
/*
 * What the parts of a run cost because threads share their work, which none of them costs alone: waking a thread that
 * sleeps; beginning with the caches of another thread; computing beside other threads.
 */
#pragma once

#include "run/fast_dqn/fast_dqn.h"

/* A part of a run, called again and again: an inference, a train step, a step of an environment. */
typedef struct threads_part {
    void (*call)(void *context);
    void *context; /* NULL in a zeroed part: there is none */
} threads_part;

/* Mean seconds: of the caller, to wake a thread; from then on, until the thread works; from the end of its work, until
 * the caller that waits for it goes on. */
typedef struct threads_wake {
    double ask, begin, end;
} threads_wake;

enum { THREADS_MAX_BUSY = 64 };

/* Of `threads` threads, which are woken one after the other, while `count` others call their parts without a pause. */
threads_wake threads_time_wake(int32_t threads, const threads_part *busy, int32_t count, int repeats);

/* Mean seconds of a part, while `count` other threads call theirs without a pause. */
double threads_time_beside(threads_part part, const threads_part *busy, int32_t count, int repeats);

/* Mean seconds of a part in a thread that sleeps before each call of it, during which another thread that sleeps, too,
 * calls `between`, if there is one. */
double threads_time_woken(threads_part part, threads_part between, int repeats);
