/* SPDX-License-Identifier: MIT */
/* In-RAM, as in the paper (list_feed.h). */
#include "contest.h"
#include "list_feed.h"

#include <stdlib.h>

static void open(contestant *c, int64_t capacity)
{
    list_feed *const feed = malloc(sizeof *feed);
    if (!feed)
        bench_must(GPUR_OUT_OF_MEMORY, "the list in RAM");
    list_feed_open(feed, capacity);
    c->store = feed;
}

static void close(contestant *c)
{
    list_feed_close(c->store);
    free(c->store);
}

static void append(contestant *c, gpur_writer *writer, int64_t count, const melee_row *rows)
{
    (void)writer;
    list_feed_append(c->store, count, rows);
}

static void train(contestant *c, int64_t steps)
{
    list_feed_train(c->store, c->learner, c->batch, steps);
}

static void train_on(contestant *c, const int64_t *ids)
{
    list_feed_train_on(c->store, c->learner, c->batch, ids);
}

static int64_t host_bytes(const contestant *c)
{
    const list_feed *const feed = c->store;
    return ram_list_bytes(feed->list);
}

const contest_kind contest_list = {
    .name = "in-RAM, as in the paper",
    .host_batches = 1,
    .in_ram = 1,
    .open = open,
    .close = close,
    .append = append,
    .train = train,
    .train_on = train_on,
    .host_bytes = host_bytes,
};
