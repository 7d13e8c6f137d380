/* SPDX-License-Identifier: MIT */
/* In-RAM, done well (bench/rows_feed.h). Whether a thread of its own should fill the buffers depends on the machine:
 * the first rounds try both ways, two each, and the rest goes the faster one. */
#include "bench/bench.h"
#include "bench/rows_feed.h"
#include "bench/training/memory.h"
#include "bench/training/ram_steps.h"

#include <stdlib.h>

enum { TRIALS = 4 };

typedef struct rows_memory {
    rows_feed feed;
    ram_steps steps;
    int round;
    double spent[2]; /* seconds of the trials: without the thread, with it */
} rows_memory;

static void *open_memory(const memory_setup *setup)
{
    rows_memory *const memory = calloc(1, sizeof *memory);
    bench_must(memory ? GPUR_OK : GPUR_OUT_OF_MEMORY, "the rows in RAM");
    rows_feed_open(&memory->feed, MELEE_CAPACITY);
    rows_feed_learn(&memory->feed, setup->learner, setup->batch);
    ram_steps_begin(&memory->steps, setup->envs);
    return memory;
}

static void remember(void *context, const int32_t *actions, const vec_env *envs)
{
    rows_memory *const memory = context;
    rows_feed_append(&memory->feed, envs->count, ram_steps_take(&memory->steps, actions, envs));
}

/* Begins the second half of the trials with the thread, and goes on without it if that was the faster way. */
static void choose_way(rows_memory *memory)
{
    if (memory->round == TRIALS / 2)
        rows_feed_start_thread(&memory->feed);
    if (memory->round == TRIALS && memory->spent[1] >= memory->spent[0])
        rows_feed_stop_thread(&memory->feed);
}

static void train(void *context, int64_t steps)
{
    rows_memory *const memory = context;
    choose_way(memory);
    const double start = bench_now();
    rows_feed_train(&memory->feed, steps);
    if (memory->round < TRIALS) {
        bench_must(gpur_learner_sync(memory->feed.learner), "sync");
        memory->spent[memory->feed.ahead != NULL] += bench_now() - start;
    }
    memory->round++;
}

static void read_oldest(void *context, int64_t count, melee_row *rows)
{
    const rows_memory *const memory = context;
    for (int64_t i = 0; i < count; i++)
        ram_rows_gather(memory->feed.rows, 1, &i, &rows[i]);
}

static void close_memory(void *context)
{
    rows_memory *const memory = context;
    rows_feed_close(&memory->feed);
    free(memory);
}

const memory_kind memory_rows = {
    .name = "in-RAM, done well",
    .ring = MEMORY_LENT,
    .host_batches = ROWS_FEED_BUFFERS,
    .open = open_memory,
    .remember = remember,
    .train = train,
    .read = read_oldest,
    .close = close_memory,
};
