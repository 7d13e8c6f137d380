/* SPDX-License-Identifier: MIT */
/*
 * In-RAM, done well: packed rows go from one block of RAM into pinned buffers, and from there to the device while the
 * step before runs; nothing is waited for but a free buffer. Whether a thread of its own should fill the buffers
 * depends on the machine: both ways are tried before a case, and the faster one is used.
 */
#include "contest.h"
#include "ram_ahead.h"
#include "ram_rows.h"

#include <pthread.h>
#include <stdlib.h>

enum { BUFFERS = 4, TRIALS = 3 };

typedef struct rows_store {
    ram_rows *rows;
    ram_ahead *ahead;      /* NULL: the thread that trains fills the buffers */
    pthread_mutex_t mutex; /* between appending and sampling */
} rows_store;

static void open(contestant *c, int64_t capacity)
{
    rows_store *const s = calloc(1, sizeof *s);
    if (!s || !(s->rows = ram_rows_create(capacity)))
        bench_must(GPUR_OUT_OF_MEMORY, "the rows in RAM");
    pthread_mutex_init(&s->mutex, NULL);
    c->store = s;
}

static void close(contestant *c)
{
    rows_store *const s = c->store;
    ram_rows_destroy(s->rows);
    pthread_mutex_destroy(&s->mutex);
    free(s);
}

static void append(contestant *c, gpur_writer *writer, int64_t count, const melee_row *rows)
{
    rows_store *const s = c->store;
    (void)writer;
    pthread_mutex_lock(&s->mutex);
    ram_rows_append(s->rows, count, rows);
    pthread_mutex_unlock(&s->mutex);
}

static void fill(void *context, void *batch)
{
    const contestant *const c = context;
    rows_store *const s = c->store;
    pthread_mutex_lock(&s->mutex);
    ram_rows_sample(s->rows, c->batch, batch);
    pthread_mutex_unlock(&s->mutex);
}

static void step(contestant *c)
{
    void *batch = NULL;
    bench_must(gpur_learner_get_rows(c->learner, &batch), "a buffer");
    fill(c, batch);
    bench_must(gpur_learner_train_rows(c->learner, batch), "train on rows");
}

static void train(contestant *c, int64_t steps)
{
    const rows_store *const s = c->store;
    for (int64_t i = 0; i < steps; i++) {
        if (s->ahead)
            ram_ahead_train(s->ahead);
        else
            step(c);
    }
    bench_must(gpur_learner_sync(c->learner), "sync");
}

static void train_on(contestant *c, const int64_t *ids)
{
    const rows_store *const s = c->store;
    void *batch = NULL;
    bench_must(gpur_learner_get_rows(c->learner, &batch), "a buffer");
    ram_rows_gather(s->rows, c->batch, ids, batch);
    bench_must(gpur_learner_train_rows(c->learner, batch), "train on rows");
    bench_must(gpur_learner_sync(c->learner), "sync");
}

static void repeat(void *context, int64_t repeats)
{
    train(context, repeats);
}

/* The best of some trials, each long enough for the clock. */
static double try(contestant *c)
{
    const int64_t steps = bench_calibrate(repeat, c, 5e-3);
    double best = bench_time(repeat, c, steps);
    for (int i = 1; i < TRIALS; i++) {
        const double again = bench_time(repeat, c, steps);
        best = again < best ? again : best;
    }
    return best;
}

static void rest(contestant *c)
{
    rows_store *const s = c->store;
    ram_ahead_stop(s->ahead);
    s->ahead = NULL;
}

static const char *ready(contestant *c)
{
    rows_store *const s = c->store;
    const double alone = try(c);
    s->ahead = ram_ahead_start(c->learner, BUFFERS, fill, c);
    if (try(c) < alone)
        return "a thread fills the buffers";
    rest(c);
    return "the training thread fills the buffers";
}

static int64_t host_bytes(const contestant *c)
{
    const rows_store *const s = c->store;
    return ram_rows_bytes(s->rows);
}

const contest_kind contest_rows = {
    .name = "in-RAM, done well",
    .host_batches = BUFFERS,
    .in_ram = 1,
    .open = open,
    .close = close,
    .append = append,
    .ready = ready,
    .rest = rest,
    .train = train,
    .train_on = train_on,
    .host_bytes = host_bytes,
};
