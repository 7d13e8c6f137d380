/* SPDX-License-Identifier: MIT */
#include "backend.h"

#include "bench/lib/bench.h"

#include <stdlib.h>

enum { MAX_BATCH = 1024, SMALLEST_BLOCK = 16, BLOCK = 10000 };

void backend_open(backend *b, const backend_kind *kind, gpur_device *device, int64_t capacity)
{
    gpur_replay_config config;
    *b = (backend){.kind = kind, .device = device};
    bench_melee_config(&config, capacity);
    if (kind->is_in_ram) { /* it stays empty: room for the largest batch and a block */
        config.max_batch = MAX_BATCH, config.block_rows = SMALLEST_BLOCK, config.staging_blocks = 2;
        config.capacity = MAX_BATCH + SMALLEST_BLOCK;
    }
    b->replay = bench_create(device, &config);
    if (kind->open)
        b->store = kind->open(capacity);
}

void backend_close(backend *b)
{
    backend_unset_learner(b);
    if (b->kind->close)
        b->kind->close(b->store);
    gpur_replay_destroy(b->replay);
}

void backend_fill(backend *b, int64_t count)
{
    melee_row *const rows = bench_allocate(BLOCK * sizeof *rows);
    gpur_writer *const writer = bench_writer(b->replay);
    for (int64_t done = 0; done < count; done += BLOCK) {
        const int64_t block = count - done < BLOCK ? count - done : BLOCK;
        bench_melee_rows(done, block, rows);
        b->kind->append(b, writer, block, rows);
    }
    gpur_writer_destroy(writer);
    bench_must(gpur_device_sync(b->device), "sync");
    free(rows);
}

gpur_dqn_config backend_learner_config(int64_t batch)
{
    gpur_dqn_config config;
    bench_must(gpur_dqn_config_init(&config, sizeof config), "learner config");
    bench_must(gpur_dqn_config_preset(&config, "melee-gpu"), "preset");
    config.batch_size = batch;
    return config;
}

void backend_set_learner(backend *b, const gpur_dqn_config *config)
{
    gpur_dqn_config mine = *config;
    mine.host_batches = b->kind->host_batches;
    b->batch = mine.batch_size;
    bench_must(gpur_dqn_create(b->replay, &mine, &b->learner), b->kind->name);
}

void backend_unset_learner(backend *b)
{
    if (b->learner && b->kind->use_thread)
        b->kind->use_thread(b, 0);
    gpur_learner_destroy(b->learner);
    b->learner = NULL;
    b->note = NULL;
}

void backend_train(void *context, int64_t steps)
{
    backend *const b = context;
    b->kind->train(b, steps);
    bench_must(gpur_learner_sync(b->learner), "sync");
}

/* Seconds of a step: the best of some trials, each long enough for the clock. */
static double try_steps(backend *b)
{
    enum { TRIALS = 3 };
    const int64_t steps = bench_calibrate(backend_train, b, 5e-3);
    double best = bench_time(backend_train, b, steps);
    for (int i = 1; i < TRIALS; i++) {
        const double again = bench_time(backend_train, b, steps);
        best = again < best ? again : best;
    }
    return best;
}

void backend_choose_thread(backend *b)
{
    if (!b->kind->use_thread)
        return;
    const double without = try_steps(b);
    b->kind->use_thread(b, 1);
    const int is_faster = try_steps(b) < without;
    b->kind->use_thread(b, is_faster);
    b->note = is_faster ? "a thread fills the buffers" : "the training thread fills the buffers";
}

static void append(backend *b, gpur_writer *writer, int64_t count, const melee_row *rows)
{
    (void)b;
    bench_must(gpur_writer_append(writer, count, rows, NULL), "append");
}

static void train(backend *b, int64_t steps)
{
    bench_must(gpur_learner_train(b->learner, steps), "train");
}

static void train_in_calls(backend *b, int64_t steps)
{
    for (int64_t i = 0; i < steps; i++)
        bench_must(gpur_learner_train(b->learner, 1), "train");
}

static void train_on(backend *b, const int64_t *positions)
{
    bench_must(gpur_learner_train_ids(b->learner, positions), "train on ids"); /* row i has id i: none was evicted */
}

const backend_kind in_device = {.name = "in-device", .append = append, .train = train, .train_on = train_on};
const backend_kind in_device_calls = {
    .name = "in-device, a call a step", .append = append, .train = train_in_calls, .train_on = train_on};
const backend_kind *const backend_kinds[BACKENDS] = {&ram_list, &ram_rows, &in_device_calls, &in_device};
