/* SPDX-License-Identifier: MIT */
/*
 * Train steps while threads append, each as an actor with 16 environments that take a thousand steps a second. The pace
 * is the same for all contestants, and what was really appended is told: a machine with few cores cannot keep it.
 */
#include "contest.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>

enum { ENVIRONMENTS = 16, PERIOD = 1000000, MOST_THREADS = 64, ROUNDS = 11, QUICK_ROUNDS = BENCH_FEWEST_ROUNDS };

typedef struct crowd {
    contestant *player;
    int threads;
    int64_t steps; /* a sample */
    double began, seconds, appended;
    atomic_int stopping;
    _Atomic int64_t rows; /* since `began` */
    pthread_t thread[MOST_THREADS];
    char note[64];
} crowd;

static void wait_until(struct timespec *next)
{
    next->tv_nsec += PERIOD;
    if (next->tv_nsec >= 1000000000)
        next->tv_nsec -= 1000000000, next->tv_sec++;
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, next, NULL);
}

static void *act(void *context)
{
    crowd *const c = context;
    melee_row rows[ENVIRONMENTS];
    struct timespec next;
    gpur_writer *const writer = contestant_writer(c->player);
    contest_make_rows(7, ENVIRONMENTS, rows);
    clock_gettime(CLOCK_MONOTONIC, &next);
    while (!atomic_load(&c->stopping)) {
        c->player->kind->append(c->player, writer, ENVIRONMENTS, rows);
        atomic_fetch_add(&c->rows, ENVIRONMENTS);
        wait_until(&next);
    }
    gpur_writer_destroy(writer);
    return NULL;
}

static void gather_crowd(void *context)
{
    crowd *const c = context;
    atomic_store(&c->stopping, 0);
    atomic_store(&c->rows, 0);
    c->began = bench_now();
    for (int i = 0; i < c->threads; i++)
        if (pthread_create(&c->thread[i], NULL, act, c) != 0)
            bench_must(GPUR_OUT_OF_MEMORY, "a thread that appends");
}

static void train(void *context, int64_t repeats)
{
    const crowd *const c = context;
    (void)repeats; /* always one */
    c->player->kind->train(c->player, c->steps);
}

static void send_home(void *context)
{
    crowd *const c = context;
    c->appended += (double)atomic_load(&c->rows);
    c->seconds += bench_now() - c->began;
    atomic_store(&c->stopping, 1);
    for (int i = 0; i < c->threads; i++)
        pthread_join(c->thread[i], NULL);
    snprintf(c->note, sizeof c->note, "%.0f rows/s of %.0f appended", c->appended / c->seconds,
             (double)c->threads * ENVIRONMENTS * (1e9 / PERIOD));
}

static void play(bench_report *report, contest *all, int threads, const int64_t *steps)
{
    static crowd crowds[CONTESTANTS];
    match m = {.figure = "train step while threads append",
               .x_name = "threads",
               .x = threads,
               .item = "step",
               .count = CONTESTANTS,
               .rounds = report->options->quick ? QUICK_ROUNDS : ROUNDS,
               .reference = CONTEST_DEVICE};
    for (int i = 0; i < CONTESTANTS; i++) {
        crowd *const c = &crowds[i];
        c->player = &all->player[i], c->threads = threads, c->steps = steps[i];
        c->seconds = c->appended = 0;
        m.entrant[i] = (match_entrant){.name = c->player->kind->name,
                                       .note = c->note,
                                       .items = (double)steps[i],
                                       .body = train,
                                       .context = c,
                                       .before = gather_crowd,
                                       .after = send_home};
    }
    match_play(report, &m);
}

static void alone(void *context, int64_t repeats)
{
    contestant *const c = context;
    c->kind->train(c, repeats);
}

/* A sample is long enough for every thread to append many times. */
void contest_crowds(bench_report *report, contest *c, int64_t batch, const int *threads, int count)
{
    int64_t steps[CONTESTANTS];
    const double seconds = report->options->quick ? 0.03 : 0.1;
    contest_begin(c, batch);
    for (int i = 0; i < CONTESTANTS; i++) {
        contestant *const p = &c->player[i];
        p->note = p->kind->ready ? p->kind->ready(p) : NULL;
        const int64_t few = bench_calibrate(alone, p, 5e-3);
        steps[i] = 1 + (int64_t)(seconds / bench_time(alone, p, few));
    }
    for (int i = 0; i < count; i++)
        play(report, c, threads[i], steps);
    contest_end(c);
}
