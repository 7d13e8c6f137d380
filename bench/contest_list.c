/* SPDX-License-Identifier: MIT */
/* In-RAM, as in the paper: sampled, put together, copied up and waited for in every step, as one run of a session. */
#include "contest.h"
#include "ram_list.h"

#include <pthread.h>
#include <stdlib.h>

typedef struct list_store {
    ram_list *list;
    pthread_mutex_t mutex; /* between appending and sampling */
    melee_row batch[];     /* (max_batch) ordinary memory */
} list_store;

static void open(contestant *c, int64_t capacity)
{
    list_store *const s = malloc(sizeof *s + 4096 * sizeof *s->batch);
    if (!s || !(s->list = ram_list_create(capacity)))
        bench_must(GPUR_OUT_OF_MEMORY, "the list in RAM");
    pthread_mutex_init(&s->mutex, NULL);
    c->store = s;
}

static void close(contestant *c)
{
    list_store *const s = c->store;
    ram_list_destroy(s->list);
    pthread_mutex_destroy(&s->mutex);
    free(s);
}

static void append(contestant *c, gpur_writer *writer, int64_t count, const melee_row *rows)
{
    list_store *const s = c->store;
    (void)writer;
    pthread_mutex_lock(&s->mutex);
    for (int64_t i = 0; i < count; i++)
        ram_list_append(s->list, &rows[i]);
    pthread_mutex_unlock(&s->mutex);
}

static void run(contestant *c)
{
    const list_store *const s = c->store;
    bench_must(gpur_learner_train_rows(c->learner, s->batch), "train on rows");
    bench_must(gpur_learner_sync(c->learner), "sync");
}

static void train(contestant *c, int64_t steps)
{
    list_store *const s = c->store;
    for (int64_t i = 0; i < steps; i++) {
        pthread_mutex_lock(&s->mutex);
        ram_list_sample(s->list, c->batch, s->batch);
        pthread_mutex_unlock(&s->mutex);
        run(c);
    }
}

static void train_on(contestant *c, const int64_t *ids)
{
    list_store *const s = c->store;
    ram_list_gather(s->list, c->batch, ids, s->batch);
    run(c);
}

static int64_t host_bytes(const contestant *c)
{
    const list_store *const s = c->store;
    return ram_list_bytes(s->list);
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
