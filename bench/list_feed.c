/* SPDX-License-Identifier: MIT */
#include "list_feed.h"

#include <stdlib.h>

void list_feed_open(list_feed *feed, int64_t capacity)
{
    feed->batch = malloc(LIST_FEED_MOST_BATCH * sizeof *feed->batch);
    feed->list = ram_list_create(capacity);
    if (!feed->batch || !feed->list || pthread_mutex_init(&feed->mutex, NULL) != 0)
        bench_must(GPUR_OUT_OF_MEMORY, "the list in RAM");
}

void list_feed_close(list_feed *feed)
{
    ram_list_destroy(feed->list);
    pthread_mutex_destroy(&feed->mutex);
    free(feed->batch);
}

void list_feed_append(list_feed *feed, int64_t count, const melee_row *rows)
{
    pthread_mutex_lock(&feed->mutex);
    for (int64_t i = 0; i < count; i++)
        ram_list_append(feed->list, &rows[i]);
    pthread_mutex_unlock(&feed->mutex);
}

static void step(const list_feed *feed, gpur_learner *learner)
{
    bench_must(gpur_learner_train_rows(learner, feed->batch), "train on rows");
    bench_must(gpur_learner_sync(learner), "sync");
}

void list_feed_train(list_feed *feed, gpur_learner *learner, int64_t batch, int64_t steps)
{
    for (int64_t i = 0; i < steps; i++) {
        pthread_mutex_lock(&feed->mutex);
        ram_list_sample(feed->list, batch, feed->batch);
        pthread_mutex_unlock(&feed->mutex);
        step(feed, learner);
    }
}

void list_feed_train_on(list_feed *feed, gpur_learner *learner, int64_t batch, const int64_t *places)
{
    ram_list_gather(feed->list, batch, places, feed->batch);
    step(feed, learner);
}
