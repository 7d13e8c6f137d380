/* SPDX-License-Identifier: MIT */
/* In-RAM, as in the paper: each step samples, puts a batch together, copies it up and is waited for, as one run of a
 * session is. Any thread may append while another trains. */
#ifndef BENCH_LIST_FEED_H
#define BENCH_LIST_FEED_H

#include "ram_list.h"

#include <pthread.h>

enum { LIST_FEED_MOST_BATCH = 4096 };

typedef struct list_feed {
    ram_list *list;
    melee_row *batch;      /* (LIST_FEED_MOST_BATCH) ordinary memory */
    pthread_mutex_t mutex; /* between appending and sampling */
} list_feed;

/* Leaves the program when there is no memory. */
void list_feed_open(list_feed *feed, int64_t capacity);
void list_feed_close(list_feed *feed);

void list_feed_append(list_feed *feed, int64_t count, const melee_row *rows);

/* Steps on `batch` transitions each: drawn; or one step on those at the given places (batch), 0 being the oldest. Done
 * on return. */
void list_feed_train(list_feed *feed, gpur_learner *learner, int64_t batch, int64_t steps);
void list_feed_train_on(list_feed *feed, gpur_learner *learner, int64_t batch, const int64_t *places);

#endif
