/* SPDX-License-Identifier: MIT */
/*
 * In-RAM, done well: packed rows go from one block of RAM into pinned buffers, and from there to the device while the
 * step before runs; nothing is waited for but a free buffer. A thread of its own fills the buffers, or the one that
 * trains does: which is faster depends on the machine. Any thread may append meanwhile.
 */
#ifndef BENCH_ROWS_FEED_H
#define BENCH_ROWS_FEED_H

#include "ram_ahead.h"
#include "ram_rows.h"

#include <pthread.h>

enum { ROWS_FEED_BUFFERS = 4 }; /* host_batches of the learner */

typedef struct rows_feed {
    ram_rows *rows;
    pthread_mutex_t mutex; /* between appending and sampling */
    gpur_learner *learner;
    int64_t batch;
    ram_ahead *ahead; /* NULL: the thread that trains fills the buffers */
} rows_feed;

/* Leaves the program when there is no memory. Close stops the thread. */
void rows_feed_open(rows_feed *feed, int64_t capacity);
void rows_feed_close(rows_feed *feed);

void rows_feed_append(rows_feed *feed, int64_t count, const melee_row *rows);

/* Whom to feed from now on, and how many transitions a step. The learner must outlive the thread. */
void rows_feed_learn(rows_feed *feed, gpur_learner *learner, int64_t batch);
void rows_feed_start_thread(rows_feed *feed);
void rows_feed_stop_thread(rows_feed *feed); /* does nothing where there is none */

/* Enqueues steps, of which the last need not be done on return; or, without the thread, one on the transitions at the
 * given places (batch), 0 being the oldest. */
void rows_feed_train(rows_feed *feed, int64_t steps);
void rows_feed_train_on(rows_feed *feed, const int64_t *places);

#endif
