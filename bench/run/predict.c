/* SPDX-License-Identifier: MIT */
#include "bench/run/predict.h"

#include "bench/lib/setup.h"

#include <stdlib.h>

/* A thread's work that is still to be done, in pieces that it carries out one after the other. */
typedef struct piece {
    double seconds;
    int computes; /* 1: needs a core; 0: sleeps */
} piece;

typedef struct worker {
    piece *pieces; /* a ring of `room` */
    int64_t first, count, room;
} worker;

typedef struct simulation {
    const gpur_run_shape *shape;
    const predict_times *times;
    worker *workers; /* the lanes, then the trainer, then the thread that orders them */
    int32_t count;
    double now;
} simulation;

static void push(worker *w, double seconds, int computes)
{
    if (w->count == w->room) {
        piece *const grown = bench_allocate((size_t)(2 * w->room + 16) * sizeof *grown);
        for (int64_t i = 0; i < w->count; i++)
            grown[i] = w->pieces[(w->first + i) % w->room];
        free(w->pieces);
        *w = (worker){grown, 0, w->count, 2 * w->room + 16};
    }
    w->pieces[(w->first + w->count++) % w->room] = (piece){seconds, computes};
}

/* Moves the clock to the next end of a piece. Threads that compute share the cores evenly. */
static void pass_time(simulation *s)
{
    double rate = 1.0, shortest = 1e300;
    int computing = 0;
    for (int32_t i = 0; i < s->count; i++)
        computing += s->workers[i].count > 0 && s->workers[i].pieces[s->workers[i].first].computes;
    if (s->times->cores > 0 && computing > s->times->cores)
        rate = (double)s->times->cores / computing;
    for (int32_t i = 0; i < s->count; i++) {
        const worker *const w = &s->workers[i];
        if (w->count > 0) {
            const double left = w->pieces[w->first].seconds / (w->pieces[w->first].computes ? rate : 1.0);
            shortest = left < shortest ? left : shortest;
        }
    }
    for (int32_t i = 0; i < s->count; i++) {
        worker *const w = &s->workers[i];
        if (w->count == 0)
            continue;
        piece *const p = &w->pieces[w->first];
        p->seconds -= shortest * (p->computes ? rate : 1.0);
        if (p->seconds <= 1e-12) {
            w->first = (w->first + 1) % w->room;
            w->count--;
        }
    }
    s->now += shortest;
}

static void join(simulation *s, int32_t first, int32_t last)
{
    for (int32_t i = first; i <= last; i++)
        while (s->workers[i].count > 0)
            pass_time(s);
}

static void dispatch(simulation *s, int64_t step, int32_t lane)
{
    const predict_times *const t = s->times;
    const int computes = t->cores > 0;
    if (!s->shape->synchronized)
        push(&s->workers[lane], (1.0 - t->explored) * t->infer_one, computes);
    push(&s->workers[lane], t->env(t->context, lane, step), computes && !t->env_sleeps);
}

/* The thread that orders the others waits for its own work. */
static void work_alone(simulation *s, double seconds)
{
    push(&s->workers[s->count - 1], seconds, s->times->cores > 0);
    join(s, s->count - 1, s->count - 1);
}

double predict_seconds(const gpur_run_shape *shape, const predict_times *times, int64_t steps)
{
    const int32_t lanes = shape->lanes, trainer = lanes, count = lanes + 2;
    simulation s = {shape, times, bench_allocate((size_t)count * sizeof(worker)), count, 0.0};
    int64_t published = 0;
    for (int64_t t = 1; t <= steps; t++) {
        gpur_run_op ops[GPUR_RUN_MAX_OPS];
        const int32_t ops_count = gpur_run_ops(shape, t, ops);
        for (int32_t i = 0; i < ops_count; i++) {
            const gpur_run_task task = ops[i].task;
            if (task == GPUR_RUN_JOIN_TRAINER)
                join(&s, trainer, trainer);
            else if (task == GPUR_RUN_JOIN_LANES)
                join(&s, 0, lanes - 1);
            else if (task == GPUR_RUN_PUBLISH)
                work_alone(&s, times->publish * (double)(t - 1 - published)), published = t - 1;
            else if (task == GPUR_RUN_COPY)
                work_alone(&s, times->copy);
            else if (task == GPUR_RUN_TRAIN)
                push(&s.workers[trainer], times->train * (double)ops[i].count, times->cores > 0);
            else if (task == GPUR_RUN_INFER)
                work_alone(&s, times->infer_all);
            else if (task == GPUR_RUN_DISPATCH)
                dispatch(&s, t, (int32_t)ops[i].count);
        }
    }
    join(&s, 0, count - 1);
    for (int32_t i = 0; i < count; i++)
        free(s.workers[i].pieces);
    free(s.workers);
    return s.now;
}
