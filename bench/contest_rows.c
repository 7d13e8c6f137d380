/* SPDX-License-Identifier: MIT */
/* In-RAM, done well (rows_feed.h). Whether a thread of its own should fill the buffers depends on the machine: both
 * ways are tried before a case, and the faster one is used. */
#include "contest.h"
#include "rows_feed.h"

#include <stdlib.h>

enum { TRIALS = 3 };

static void open(contestant *c, int64_t capacity)
{
    rows_feed *const feed = malloc(sizeof *feed);
    if (!feed)
        bench_must(GPUR_OUT_OF_MEMORY, "the rows in RAM");
    rows_feed_open(feed, capacity);
    c->store = feed;
}

static void close(contestant *c)
{
    rows_feed_close(c->store);
    free(c->store);
}

static void append(contestant *c, gpur_writer *writer, int64_t count, const melee_row *rows)
{
    (void)writer;
    rows_feed_append(c->store, count, rows);
}

static void train(contestant *c, int64_t steps)
{
    rows_feed_train(c->store, steps);
    bench_must(gpur_learner_sync(c->learner), "sync");
}

static void train_on(contestant *c, const int64_t *ids)
{
    rows_feed_train_on(c->store, ids);
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

static void learn(contestant *c)
{
    rows_feed_learn(c->store, c->learner, c->batch);
}

static void rest(contestant *c)
{
    rows_feed_stop_thread(c->store);
}

static const char *ready(contestant *c)
{
    const double alone = try(c);
    rows_feed_start_thread(c->store);
    if (try(c) < alone)
        return "a thread fills the buffers";
    rest(c);
    return "the training thread fills the buffers";
}

static int64_t host_bytes(const contestant *c)
{
    const rows_feed *const feed = c->store;
    return ram_rows_bytes(feed->rows);
}

const contest_kind contest_rows = {
    .name = "in-RAM, done well",
    .host_batches = ROWS_FEED_BUFFERS,
    .in_ram = 1,
    .open = open,
    .close = close,
    .append = append,
    .learn = learn,
    .ready = ready,
    .rest = rest,
    .train = train,
    .train_on = train_on,
    .host_bytes = host_bytes,
};
