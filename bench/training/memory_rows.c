/* SPDX-License-Identifier: MIT */
/*
 * In-RAM, done well: packed rows go from one block of RAM into pinned buffers, and up from there while the step before
 * runs; nothing is waited for but a free buffer. Whether a thread of its own should fill the buffers depends on the
 * machine: the first rounds try both ways, two each, and the rest goes the faster one.
 */
#include "bench/bench.h"
#include "bench/ram_ahead.h"
#include "bench/ram_rows.h"
#include "bench/training/memory.h"
#include "bench/training/ram_steps.h"

#include <pthread.h>
#include <stdlib.h>

enum { BUFFERS = 4, TRIALS = 4 };

typedef struct rows_memory {
    gpur_learner *learner;
    int64_t batch;
    ram_rows *rows;
    pthread_mutex_t mutex; /* between appending and sampling */
    ram_ahead *ahead;      /* NULL: the thread that trains fills the buffers */
    ram_steps steps;
    int round;
    double spent[2]; /* seconds of the trials: without the thread, with it */
} rows_memory;

static void *open_memory(const memory_setup *setup)
{
    rows_memory *const memory = calloc(1, sizeof *memory);
    if (!memory || !(memory->rows = ram_rows_create(MELEE_CAPACITY)) || pthread_mutex_init(&memory->mutex, NULL) != 0)
        bench_must(GPUR_OUT_OF_MEMORY, "the rows in RAM");
    memory->learner = setup->learner;
    memory->batch = setup->batch;
    ram_steps_begin(&memory->steps, setup->envs);
    return memory;
}

static void remember(void *context, const int32_t *actions, const vec_env *envs)
{
    rows_memory *const memory = context;
    const melee_row *const row = ram_steps_take(&memory->steps, actions, envs);
    pthread_mutex_lock(&memory->mutex);
    ram_rows_append(memory->rows, envs->count, row);
    pthread_mutex_unlock(&memory->mutex);
}

static void fill(void *context, void *batch)
{
    rows_memory *const memory = context;
    pthread_mutex_lock(&memory->mutex);
    ram_rows_sample(memory->rows, memory->batch, batch);
    pthread_mutex_unlock(&memory->mutex);
}

static void train_one(rows_memory *memory)
{
    void *batch = NULL;
    if (memory->ahead) {
        ram_ahead_train(memory->ahead);
        return;
    }
    bench_must(gpur_learner_get_rows(memory->learner, &batch), "a buffer");
    fill(memory, batch);
    bench_must(gpur_learner_train_rows(memory->learner, batch), "train on rows");
}

/* Begins the second half of the trials with the thread, and goes on without it if that was the faster way. */
static void choose_way(rows_memory *memory)
{
    if (memory->round == TRIALS / 2)
        memory->ahead = ram_ahead_start(memory->learner, BUFFERS, fill, memory);
    if (memory->round != TRIALS || memory->spent[1] < memory->spent[0])
        return;
    ram_ahead_stop(memory->ahead);
    memory->ahead = NULL;
}

static void train(void *context, int64_t steps)
{
    rows_memory *const memory = context;
    choose_way(memory);
    const double start = bench_now();
    for (int64_t i = 0; i < steps; i++)
        train_one(memory);
    if (memory->round < TRIALS) {
        bench_must(gpur_learner_sync(memory->learner), "sync");
        memory->spent[memory->ahead != NULL] += bench_now() - start;
    }
    memory->round++;
}

static void read_oldest(void *context, int64_t count, melee_row *rows)
{
    const rows_memory *const memory = context;
    for (int64_t i = 0; i < count; i++)
        ram_rows_gather(memory->rows, 1, &i, &rows[i]);
}

static void close_memory(void *context)
{
    rows_memory *const memory = context;
    ram_ahead_stop(memory->ahead);
    ram_rows_destroy(memory->rows);
    pthread_mutex_destroy(&memory->mutex);
    free(memory);
}

const memory_kind memory_rows = {
    .name = "in-RAM, done well",
    .ring = MEMORY_LENT,
    .host_batches = BUFFERS,
    .open = open_memory,
    .remember = remember,
    .train = train,
    .read = read_oldest,
    .close = close_memory,
};
