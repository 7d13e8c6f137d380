/* SPDX-License-Identifier: MIT */
/*
 * Train steps while threads append, each like an actor with 16 environments that take a thousand steps a second. All
 * backends get the same pace; the note says how many rows were really appended, as a machine with few cores cannot keep
 * it.
 */
#include "compare.h"

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

enum { ENVIRONMENTS = 16, PERIOD = 1000000, MAX_THREADS = 64, ROUNDS = 11, QUICK_ROUNDS = BENCH_MIN_ROUNDS };

typedef struct actors {
    backend *backend;
    int threads;
    int64_t steps; /* of a sample */
    double began, seconds, appended;
    atomic_int stopping;
    _Atomic int64_t rows; /* since `began` */
    pthread_t thread[MAX_THREADS];
    char note[64];
} actors;

static void wait_until(struct timespec *next)
{
    next->tv_nsec += PERIOD;
    if (next->tv_nsec >= 1000000000)
        next->tv_nsec -= 1000000000, next->tv_sec++;
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, next, NULL);
}

static void *run_actor(void *context)
{
    actors *const a = context;
    melee_row rows[ENVIRONMENTS];
    struct timespec next;
    gpur_writer *const writer = bench_writer(a->backend->replay);
    bench_melee_rows(0, ENVIRONMENTS, rows);
    clock_gettime(CLOCK_MONOTONIC, &next);
    while (!atomic_load(&a->stopping)) {
        a->backend->kind->append(a->backend, writer, ENVIRONMENTS, rows);
        atomic_fetch_add(&a->rows, ENVIRONMENTS);
        wait_until(&next);
    }
    gpur_writer_destroy(writer);
    return NULL;
}

static void start_actors(void *context)
{
    actors *const a = context;
    atomic_store(&a->stopping, 0);
    atomic_store(&a->rows, 0);
    a->began = bench_now();
    for (int i = 0; i < a->threads; i++)
        if (pthread_create(&a->thread[i], NULL, run_actor, a) != 0)
            bench_must(GPUR_OUT_OF_MEMORY, "a thread that appends");
}

static void train(void *context, int64_t repeats)
{
    const actors *const a = context;
    (void)repeats; /* always 1 */
    backend_train(a->backend, a->steps);
}

static void stop_actors(void *context)
{
    actors *const a = context;
    a->appended += (double)atomic_load(&a->rows);
    a->seconds += bench_now() - a->began;
    atomic_store(&a->stopping, 1);
    for (int i = 0; i < a->threads; i++)
        pthread_join(a->thread[i], NULL);
    snprintf(a->note, sizeof a->note, "%.0f rows/s of %.0f appended", a->appended / a->seconds,
             (double)a->threads * ENVIRONMENTS * (1e9 / PERIOD));
}

static void run_case(bench_report *report, comparison *c, int threads, const int64_t *steps)
{
    static actors all[VARIANTS];
    bench_case one = bench_point("train step while threads append", "threads", threads, "step", DEVICE, VARIANTS);
    one.repeats = 1, one.rounds = report->options->quick ? QUICK_ROUNDS : ROUNDS;
    for (int i = 0; i < VARIANTS; i++) {
        actors *const a = &all[i];
        a->backend = &c->backends[i], a->threads = threads, a->steps = steps[i];
        a->seconds = a->appended = 0;
        one.variants[i] = (bench_variant){.name = a->backend->kind->name,
                                          .note = a->note,
                                          .items = (double)steps[i],
                                          .body = train,
                                          .context = a,
                                          .before = start_actors,
                                          .after = stop_actors};
    }
    bench_run(report, &one);
}

/* A sample is long enough for every thread to append many times. */
void compare_threads(bench_report *report, comparison *c, int64_t batch, const int *threads, int count)
{
    int64_t steps[VARIANTS];
    const double seconds = report->options->quick ? 0.03 : 0.1;
    comparison_set_learners(c, batch);
    for (int i = 0; i < VARIANTS; i++) {
        backend *const b = &c->backends[i];
        backend_choose_thread(b);
        const int64_t few = bench_calibrate(backend_train, b, 5e-3);
        steps[i] = 1 + (int64_t)(seconds / bench_time(backend_train, b, few));
    }
    for (int i = 0; i < count; i++)
        run_case(report, c, threads[i], steps);
    comparison_unset_learners(c);
}
