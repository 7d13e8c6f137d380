/* SPDX-License-Identifier: MIT */
#include "bench/run/threads.h"

#include "bench/lib/bench.h"
#include "bench/lib/setup.h"
#include "bench/run/timed_env.h"
#include "run/fast_dqn/job_thread.h"

#include <stdatomic.h>
#include <stdlib.h>

/* Long enough that the caller sleeps before the thread has finished. */
static const double job_seconds = 50e-6;

/* A thread that calls its part when it is wanted: once, or until it is told to stop. */
typedef struct caller {
    threads_part part;
    gpur_job_thread worker;
    _Atomic int stopping, has_begun, stops;
    int goes_on;
    double begin, end; /* of the last call */
} caller;

static gpur_status call_part(void *context, int64_t first, int64_t last, int64_t *done)
{
    caller *const c = context;
    (void)first, (void)last, (void)done;
    atomic_store(&c->has_begun, 1);
    do {
        c->begin = bench_now();
        c->part.call(c->part.context);
        c->end = bench_now();
    } while (c->goes_on && !atomic_load(&c->stops));
    return GPUR_OK;
}

static gpur_status join_jobs(gpur_job_thread *thread)
{
    (void)gpur_job_thread_wait(thread);
    return gpur_job_thread_check(thread);
}

static void open_caller(caller *c, threads_part part, int goes_on)
{
    c->part = part;
    c->goes_on = goes_on;
    bench_must(gpur_job_thread_open(&c->worker, call_part, c, &c->stopping, "bench"), "thread");
}

/* Threads that call their parts without a pause until close_busy. */
static caller *open_busy(const threads_part *parts, int32_t count)
{
    caller *const busy = bench_allocate((size_t)(count + 1) * sizeof *busy);
    for (int32_t i = 0; i < count; i++) {
        open_caller(&busy[i], parts[i], 1);
        gpur_job_thread_want(&busy[i].worker, 1);
        while (!atomic_load(&busy[i].has_begun))
            timed_sleep(10e-6);
    }
    return busy;
}

static void close_busy(caller *busy, int32_t count)
{
    for (int32_t i = 0; i < count; i++)
        atomic_store(&busy[i].stops, 1);
    for (int32_t i = 0; i < count; i++) {
        bench_must(join_jobs(&busy[i].worker), "part");
        gpur_job_thread_close(&busy[i].worker);
    }
    free(busy);
}

static void spin(void *context)
{
    timed_spin(*(const double *)context);
}

threads_wake threads_time_wake(int32_t threads, const threads_part *busy, int32_t count, int repeats)
{
    static double seconds;
    threads_wake sum = {0.0, 0.0, 0.0};
    caller *const woken = bench_allocate((size_t)threads * sizeof *woken);
    seconds = job_seconds;
    for (int32_t i = 0; i < threads; i++)
        open_caller(&woken[i], (threads_part){spin, &seconds}, 0);
    caller *const others = open_busy(busy, count);
    for (int64_t job = 1; job <= repeats; job++)
        for (int32_t i = 0; i < threads; i++) {
            const double begin = bench_now();
            gpur_job_thread_want(&woken[i].worker, job);
            const double asked = bench_now();
            bench_must(join_jobs(&woken[i].worker), "join");
            const double joined = bench_now();
            sum.ask += asked - begin;
            sum.begin += woken[i].begin > asked ? woken[i].begin - asked : 0.0;
            sum.end += joined - woken[i].end;
        }
    close_busy(others, count);
    for (int32_t i = 0; i < threads; i++)
        gpur_job_thread_close(&woken[i].worker);
    free(woken);
    const double calls = (double)repeats * threads;
    return (threads_wake){sum.ask / calls, sum.begin / calls, sum.end / calls};
}

double threads_time_beside(threads_part part, const threads_part *busy, int32_t count, int repeats)
{
    caller *const others = open_busy(busy, count);
    const double begin = bench_now();
    for (int i = 0; i < repeats; i++)
        part.call(part.context);
    const double seconds = (bench_now() - begin) / repeats;
    close_busy(others, count);
    return seconds;
}

double threads_time_woken(threads_part part, threads_part between, int repeats)
{
    caller measured = {0}, other = {0};
    double sum = 0.0;
    open_caller(&measured, part, 0);
    if (between.call)
        open_caller(&other, between, 0);
    for (int64_t job = 1; job <= repeats; job++) {
        gpur_job_thread_want(&measured.worker, job);
        bench_must(join_jobs(&measured.worker), "part");
        sum += measured.end - measured.begin;
        if (between.call) {
            gpur_job_thread_want(&other.worker, job);
            bench_must(join_jobs(&other.worker), "part");
        }
    }
    gpur_job_thread_close(&measured.worker);
    if (between.call)
        gpur_job_thread_close(&other.worker);
    return sum / repeats;
}
