/* SPDX-License-Identifier: MIT */
/* In-RAM, as in the paper: each step samples, puts a batch together, copies it up and is waited for, as one run of a
 * session is. */
#include "bench/ram_list.h"
#include "bench/training/memory.h"
#include "bench/training/ram_steps.h"

#include <stdlib.h>

typedef struct list_memory {
    gpur_learner *learner;
    int64_t batch;
    ram_list *list;
    ram_steps steps;
    melee_row sample[]; /* (batch) ordinary memory */
} list_memory;

static void *open_memory(const memory_setup *setup)
{
    list_memory *const memory = calloc(1, sizeof *memory + (size_t)setup->batch * sizeof(melee_row));
    if (!memory || !(memory->list = ram_list_create(MELEE_CAPACITY)))
        bench_must(GPUR_OUT_OF_MEMORY, "the list in RAM");
    memory->learner = setup->learner;
    memory->batch = setup->batch;
    ram_steps_begin(&memory->steps, setup->envs);
    return memory;
}

static void remember(void *context, const int32_t *actions, const vec_env *envs)
{
    list_memory *const memory = context;
    const melee_row *const row = ram_steps_take(&memory->steps, actions, envs);
    for (int32_t i = 0; i < envs->count; i++)
        ram_list_append(memory->list, &row[i]);
}

static void train(void *context, int64_t steps)
{
    list_memory *const memory = context;
    for (int64_t i = 0; i < steps; i++) {
        ram_list_sample(memory->list, memory->batch, memory->sample);
        bench_must(gpur_learner_train_rows(memory->learner, memory->sample), "train on rows");
        bench_must(gpur_learner_sync(memory->learner), "sync");
    }
}

static void read_oldest(void *context, int64_t count, melee_row *rows)
{
    const list_memory *const memory = context;
    for (int64_t i = 0; i < count; i++)
        ram_list_gather(memory->list, 1, &i, &rows[i]);
}

static void close_memory(void *context)
{
    list_memory *const memory = context;
    ram_list_destroy(memory->list);
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
