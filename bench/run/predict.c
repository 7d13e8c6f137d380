/* SPDX-License-Identifier: MIT */
#include "bench/run/predict.h"

#include "bench/lib/setup.h"

#include <math.h>
#include <stdlib.h>

/* What a piece of work needs: nothing (it sleeps), a core, or the device that inference and training share. */
typedef enum resource { NOTHING, CORE, DEVICE } resource;

/* A thread's work that is still to be done, in pieces that it carries out one after the other. */
typedef struct piece {
    double seconds;
    resource needs;
    double slower; /* how many times as long it takes beside others: 1, or as the times say */
} piece;

typedef struct worker {
    piece *pieces; /* a ring of `room` */
    int64_t first, count, room;
    int64_t turn; /* at the device, for its first piece; 0: it has not asked yet */
} worker;

typedef struct simulation {
    const gpur_sequence_shape *shape;
    const predict_times *times;
    worker *workers; /* the lanes, then the trainer, then the thread that orders them */
    int32_t count;
    double now;
    int64_t turns; /* at the device, that were given */
} simulation;

static resource network_needs(const predict_times *t)
{
    return t->cores > 0 ? CORE : DEVICE;
}

static void push(worker *w, piece added)
{
    if (w->count == w->room) {
        piece *const grown = bench_allocate((size_t)(2 * w->room + 16) * sizeof *grown);
        for (int64_t i = 0; i < w->count; i++)
            grown[i] = w->pieces[(w->first + i) % w->room];
        free(w->pieces);
        *w = (worker){grown, 0, w->count, 2 * w->room + 16, w->turn};
    }
    w->pieces[(w->first + w->count++) % w->room] = added;
}

static resource first_needs(const worker *w)
{
    return w->pieces[w->first].needs;
}

/* The worker whose turn it is at the device, which serves them in the order in which they ask. NULL: nobody asks. */
static const worker *served(simulation *s)
{
    const worker *next = NULL;
    for (int32_t i = 0; i < s->count; i++) {
        worker *const w = &s->workers[i];
        if (w->count == 0 || first_needs(w) != DEVICE)
            continue;
        if (w->turn == 0)
            w->turn = ++s->turns;
        next = !next || w->turn < next->turn ? w : next;
    }
    return next;
}

/* Seconds of its first piece that a worker does in a second. Threads that compute share the cores evenly. */
static double rate_of(const simulation *s, const worker *w, const worker *at_device, int computing)
{
    const predict_times *const t = s->times;
    if (first_needs(w) == DEVICE)
        return w == at_device;
    if (first_needs(w) != CORE)
        return 1.0;
    const int at_once = computing < t->cores ? computing : t->cores;
    const double part = t->beside > 0 ? fmin(1.0, (at_once - 1.0) / t->beside) : 0.0;
    return (double)at_once / computing / (1.0 + part * (w->pieces[w->first].slower - 1.0));
}

/* Moves the clock to the next end of a piece. */
static void pass_time(simulation *s)
{
    const worker *const at_device = served(s);
    double shortest = INFINITY;
    int computing = 0;
    for (int32_t i = 0; i < s->count; i++)
        computing += s->workers[i].count > 0 && first_needs(&s->workers[i]) == CORE;
    for (int32_t i = 0; i < s->count; i++) {
        const worker *const w = &s->workers[i];
        if (w->count > 0)
            shortest = fmin(shortest, w->pieces[w->first].seconds / rate_of(s, w, at_device, computing));
    }
    for (int32_t i = 0; i < s->count; i++) {
        worker *const w = &s->workers[i];
        if (w->count == 0)
            continue;
        piece *const p = &w->pieces[w->first];
        p->seconds -= shortest * rate_of(s, w, at_device, computing);
        if (p->seconds <= 1e-12) {
            w->first = (w->first + 1) % w->room;
            w->count--;
            w->turn = 0;
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

/* The thread that orders the others waits for its own work. */
static void work_alone(simulation *s, piece own)
{
    push(&s->workers[s->count - 1], own);
    join(s, s->count - 1, s->count - 1);
}

/* The thread that orders the others waits for some of them, and is woken if it had to. */
static void wait_for(simulation *s, int32_t first, int32_t last)
{
    const double begin = s->now;
    join(s, first, last);
    if (s->now > begin)
        work_alone(s, (piece){s->times->wake.end, NOTHING, 1.0});
}

/* The thread that orders the others wakes one that has nothing to do. */
static void wake(simulation *s, int32_t which)
{
    if (s->workers[which].count > 0)
        return;
    work_alone(s, (piece){s->times->wake.ask, s->times->cores > 0 ? CORE : NOTHING, 1.0});
    push(&s->workers[which], (piece){s->times->wake.begin, NOTHING, 1.0});
}

static void dispatch(simulation *s, int64_t step, int32_t lane)
{
    const predict_times *const t = s->times;
    wake(s, lane);
    if (!s->shape->synchronized)
        push(&s->workers[lane], (piece){(1.0 - t->explored) * t->infer_one, network_needs(t), t->infer_slower});
    push(&s->workers[lane],
         (piece){t->env(t->context, lane, step) + t->env_late, t->env_sleeps ? NOTHING : CORE, t->env_slower});
}

static void train(simulation *s, int64_t steps)
{
    const int32_t trainer = s->shape->envs;
    wake(s, trainer);
    for (int64_t i = 0; i < steps; i++)
        push(&s->workers[trainer], (piece){s->times->train, network_needs(s->times), s->times->train_slower});
}

double predict_seconds(const gpur_sequence_shape *shape, const predict_times *times, int64_t steps)
{
    const int32_t lanes = shape->envs, trainer = lanes, count = lanes + 2;
    const resource own = times->cores > 0 ? CORE : NOTHING;
    simulation s = {shape, times, bench_allocate((size_t)count * sizeof(worker)), count, 0.0, 0};
    int64_t published = 0;
    for (int64_t t = 1; t <= steps; t++) {
        gpur_sequence_op ops[GPUR_SEQUENCE_MAX_OPS];
        const int32_t ops_count = gpur_sequence_ops(shape, t, ops);
        for (int32_t i = 0; i < ops_count; i++) {
            const gpur_sequence_task task = ops[i].task;
            if (task == GPUR_TASK_JOIN_TRAINER)
                wait_for(&s, trainer, trainer);
            else if (task == GPUR_TASK_JOIN_ENVS)
                wait_for(&s, 0, lanes - 1);
            else if (task == GPUR_TASK_FLUSH)
                work_alone(&s, (piece){times->publish * (double)(t - 1 - published), own, 1.0}), published = t - 1;
            else if (task == GPUR_TASK_COPY)
                work_alone(&s, (piece){times->copy, own, 1.0});
            else if (task == GPUR_TASK_TRAIN)
                train(&s, ops[i].count);
            else if (task == GPUR_TASK_INFER)
                work_alone(&s, (piece){times->infer_all, network_needs(times), times->infer_slower});
            else if (task == GPUR_TASK_DISPATCH)
                dispatch(&s, t, (int32_t)ops[i].count);
        }
    }
    join(&s, 0, count - 1);
    for (int32_t i = 0; i < count; i++)
        free(s.workers[i].pieces);
    free(s.workers);
    return s.now;
}
