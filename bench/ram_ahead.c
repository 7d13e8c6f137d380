/* SPDX-License-Identifier: MIT */
#include "ram_ahead.h"
#include "setup.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>

struct ram_ahead {
    gpur_learner *learner;
    ram_fill fill;
    void *context;
    pthread_t thread;
    sem_t room, filled; /* buffers that are free, that wait to be trained on */
    atomic_int stopping;
    int buffers;
    void *queue[GPUR_MAX_HOST_BATCHES];
    int64_t put, taken; /* one of each thread's own */
};

static void *run(void *context)
{
    ram_ahead *const a = context;
    for (;;) {
        void *batch = NULL;
        sem_wait(&a->room);
        if (atomic_load(&a->stopping))
            return NULL;
        bench_must(gpur_learner_get_rows(a->learner, &batch), "a buffer");
        a->fill(a->context, batch);
        a->queue[a->put++ % a->buffers] = batch;
        sem_post(&a->filled);
    }
}

ram_ahead *ram_ahead_start(gpur_learner *learner, int buffers, ram_fill fill, void *context)
{
    ram_ahead *const a = calloc(1, sizeof *a);
    if (!a)
        bench_must(GPUR_OUT_OF_MEMORY, "a prefetching thread");
    a->learner = learner, a->fill = fill, a->context = context, a->buffers = buffers;
    sem_init(&a->room, 0, (unsigned)buffers);
    sem_init(&a->filled, 0, 0);
    if (pthread_create(&a->thread, NULL, run, a) != 0)
        bench_must(GPUR_OUT_OF_MEMORY, "a prefetching thread");
    return a;
}

void ram_ahead_stop(ram_ahead *a)
{
    if (!a)
        return;
    atomic_store(&a->stopping, 1);
    sem_post(&a->room);
    pthread_join(a->thread, NULL);
    while (a->taken < a->put)
        bench_must(gpur_learner_return_rows(a->learner, a->queue[a->taken++ % a->buffers]), "a buffer");
    sem_destroy(&a->room);
    sem_destroy(&a->filled);
    free(a);
}

void ram_ahead_train(ram_ahead *a)
{
    sem_wait(&a->filled);
    bench_must(gpur_learner_train_rows(a->learner, a->queue[a->taken++ % a->buffers]), "train on rows");
    sem_post(&a->room);
}
