/* SPDX-License-Identifier: MIT */
/* In-RAM, as in the paper (bench/list_feed.h). */
#include "bench/list_feed.h"
#include "bench/training/memory.h"
#include "bench/training/ram_steps.h"

#include <stdlib.h>

typedef struct list_memory {
    gpur_learner *learner;
    int64_t batch;
    list_feed feed;
    ram_steps steps;
} list_memory;

static void *open_memory(const memory_setup *setup)
{
    list_memory *const memory = calloc(1, sizeof *memory);
    bench_must(memory ? GPUR_OK : GPUR_OUT_OF_MEMORY, "the list in RAM");
    list_feed_open(&memory->feed, MELEE_CAPACITY);
    memory->learner = setup->learner;
    memory->batch = setup->batch;
    ram_steps_begin(&memory->steps, setup->envs);
    return memory;
}

static void remember(void *context, const int32_t *actions, const vec_env *envs)
{
    list_memory *const memory = context;
    list_feed_append(&memory->feed, envs->count, ram_steps_take(&memory->steps, actions, envs));
}

static void train(void *context, int64_t steps)
{
    list_memory *const memory = context;
    list_feed_train(&memory->feed, memory->learner, memory->batch, steps);
}

static void read_oldest(void *context, int64_t count, melee_row *rows)
{
    const list_memory *const memory = context;
    for (int64_t i = 0; i < count; i++)
        ram_list_gather(memory->feed.list, 1, &i, &rows[i]);
}

static void close_memory(void *context)
{
    list_memory *const memory = context;
    list_feed_close(&memory->feed);
    free(memory);
}

const memory_kind memory_list = {
    .name = "in-RAM, as in the paper",
    .ring = MEMORY_LENT,
    .host_batches = 1,
    .open = open_memory,
    .remember = remember,
    .train = train,
    .read = read_oldest,
    .close = close_memory,
};
