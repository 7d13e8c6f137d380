/* SPDX-License-Identifier: MIT */
#include "rows_feed.h"

void rows_feed_open(rows_feed *feed, int64_t capacity)
{
    *feed = (rows_feed){.rows = ram_rows_create(capacity)};
    if (!feed->rows || pthread_mutex_init(&feed->mutex, NULL) != 0)
        bench_must(GPUR_OUT_OF_MEMORY, "the rows in RAM");
}

void rows_feed_close(rows_feed *feed)
{
    rows_feed_stop_thread(feed);
    ram_rows_destroy(feed->rows);
    pthread_mutex_destroy(&feed->mutex);
}

void rows_feed_append(rows_feed *feed, int64_t count, const melee_row *rows)
{
    pthread_mutex_lock(&feed->mutex);
    ram_rows_append(feed->rows, count, rows);
    pthread_mutex_unlock(&feed->mutex);
}

void rows_feed_learn(rows_feed *feed, gpur_learner *learner, int64_t batch)
{
    feed->learner = learner;
    feed->batch = batch;
}

static void fill(void *context, void *batch)
{
    rows_feed *const feed = context;
    pthread_mutex_lock(&feed->mutex);
    ram_rows_sample(feed->rows, feed->batch, batch);
    pthread_mutex_unlock(&feed->mutex);
}

void rows_feed_start_thread(rows_feed *feed)
{
    feed->ahead = ram_ahead_start(feed->learner, ROWS_FEED_BUFFERS, fill, feed);
}

void rows_feed_stop_thread(rows_feed *feed)
{
    ram_ahead_stop(feed->ahead);
    feed->ahead = NULL;
}

static void step(rows_feed *feed)
{
    void *batch = NULL;
    bench_must(gpur_learner_get_rows(feed->learner, &batch), "a buffer");
    fill(feed, batch);
    bench_must(gpur_learner_train_rows(feed->learner, batch), "train on rows");
}

void rows_feed_train(rows_feed *feed, int64_t steps)
{
    for (int64_t i = 0; i < steps; i++) {
        if (feed->ahead)
            ram_ahead_train(feed->ahead);
        else
            step(feed);
    }
}

void rows_feed_train_on(rows_feed *feed, const int64_t *places)
{
    void *batch = NULL;
    bench_must(gpur_learner_get_rows(feed->learner, &batch), "a buffer");
    ram_rows_gather(feed->rows, feed->batch, places, batch);
    bench_must(gpur_learner_train_rows(feed->learner, batch), "train on rows");
}
