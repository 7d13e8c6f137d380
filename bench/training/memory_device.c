/* SPDX-License-Identifier: MIT */
/* In-device: what the library is for. Rows go up in blocks; a launch of steps draws, gathers and trains where they lie.
 */
#include "bench/setup.h"
#include "bench/training/memory.h"

#include <stdlib.h>

typedef struct device_memory {
    gpur_replay *replay;
    gpur_learner *learner;
    gpur_writer *writer;
} device_memory;

static void *open_memory(const memory_setup *setup)
{
    device_memory *const memory = calloc(1, sizeof *memory);
    bench_must(memory ? GPUR_OK : GPUR_OUT_OF_MEMORY, "memory");
    memory->replay = setup->replay;
    memory->learner = setup->learner;
    bench_must(gpur_writer_create(setup->replay, setup->envs->count, &memory->writer), "writer");
    bench_must(gpur_writer_reset(memory->writer, -1, setup->envs->obs), "reset");
    return memory;
}

static void remember(void *memory, const int32_t *actions, const vec_env *envs)
{
    gpur_writer *const writer = ((device_memory *)memory)->writer;
    bench_must(gpur_writer_step(writer, actions, envs->reward, envs->next_obs, envs->terminated, envs->truncated),
               "step");
    for (int32_t i = 0; i < envs->count; i++)
        if (vec_env_ended(envs, i))
            bench_must(gpur_writer_reset(writer, i, vec_env_obs(envs, i)), "reset");
}

static void train(void *memory, int64_t steps)
{
    bench_must(gpur_learner_train(((device_memory *)memory)->learner, steps), "train");
}

/* One row, which is a batch of 1. */
static void read_row(gpur_replay *replay, int64_t id, melee_row *row)
{
    gpur_batch *batch = NULL;
    bench_must(gpur_replay_gather(replay, 1, &id, NULL, &batch), "gather");
    bench_must(gpur_batch_read(batch, "obs", row->obs, sizeof row->obs), "obs");
    bench_must(gpur_batch_read(batch, "action", &row->action, sizeof row->action), "action");
    bench_must(gpur_batch_read(batch, "reward", &row->reward, sizeof row->reward), "reward");
    bench_must(gpur_batch_read(batch, "next_obs", row->next_obs, sizeof row->next_obs), "next_obs");
    bench_must(gpur_batch_read(batch, "terminated", &row->terminated, sizeof row->terminated), "terminated");
    gpur_batch_release(batch);
}

static void read_oldest(void *context, int64_t count, melee_row *rows)
{
    for (int64_t i = 0; i < count; i++)
        read_row(((device_memory *)context)->replay, i, &rows[i]);
}

static void close_memory(void *memory)
{
    gpur_writer_destroy(((device_memory *)memory)->writer);
    free(memory);
}

const memory_kind memory_device = {
    .name = "in-device",
    .ring = MELEE_CAPACITY,
    .open = open_memory,
    .remember = remember,
    .train = train,
    .read = read_oldest,
    .close = close_memory,
};
