/* SPDX-License-Identifier: MIT */
#include "bench/device/trees.h"
#include "bench/setup.h"
#include "kernels/lib/random.h"

#include <stdlib.h>

static gpur_status draw(const tree *t, gpur_stream *stream, uint64_t seed)
{
    gpur_priority_draw_args args = gpur_priorities_draw(&t->priorities, GPUR_PRIORITIZED, t->batch, t->id, t->leaf);
    args.seed = seed;
    args.purpose = GPUR_DRAW_PRIORITY;
    args.step = counter_step(&t->counter);
    return gpur_launch_priority_draw(stream, gpur_priorities_draw_grid(&t->priorities, t->batch), &args);
}

gpur_status tree_draw(void *context, gpur_stream *stream)
{
    const tree *const t = context;
    for (uint64_t seed = 1; seed <= TREE_DRAWS; seed++)
        GPUR_TRY(draw(t, stream, seed));
    return counter_move(&t->counter, stream);
}

gpur_status tree_update(void *context, gpur_stream *stream)
{
    const tree *const t = context;
    for (int64_t i = 0; i < TREE_DRAWS; i++)
        GPUR_TRY(gpur_priorities_update(&t->priorities, stream, t->batch, t->ids + i * TREE_MOST,
                                        t->values + i * TREE_MOST, 0));
    return GPUR_OK;
}

static void *take(const tree *t, int64_t bytes)
{
    void *memory = NULL;
    bench_must(gpur_device_alloc(t->counter.device, bytes, &memory), "a tree");
    return memory;
}

/* Rows enter with the largest priority so far, 1. */
static void enter(tree *t)
{
    const gpur_window none = {0, 0, 0}, all = {0, 0, t->entries};
    bench_must(gpur_device_copy(t->counter.device, t->window, &all, sizeof all), "a window");
    bench_must(gpur_priorities_enter(&t->priorities, t->stream, &none, &all), "rows");
    bench_must(gpur_stream_sync(t->stream), "rows");
}

static void build(tree *t, gpur_device *device)
{
    static const gpur_schema nothing = {.pitch = 64};
    gpur_replay_config config;
    bench_must(gpur_replay_config_init(&config, sizeof config), "config");
    config.capacity = t->entries, config.max_batch = TREE_MOST;
    config.prioritized = 1, config.alpha = 1.0f, config.priority_offset = 0.0f;
    bench_must(gpur_priorities_build(&t->priorities, device, &config, &nothing, NULL, t->window, t->stream),
               "priorities");
}

/* As many ids and priorities as all updates of a recording take. */
static void renew(tree *t, uint64_t *state)
{
    enum { COUNT = TREE_DRAWS * TREE_MOST };
    int64_t *const ids = malloc(COUNT * sizeof *ids);
    float *const values = malloc(COUNT * sizeof *values);
    if (!ids || !values)
        bench_must(GPUR_OUT_OF_MEMORY, "priorities");
    for (int i = 0; i < COUNT; i++) {
        *state = *state * 6364136223846793005ull + 1442695040888963407ull;
        ids[i] = (int64_t)((*state >> 32) * (uint64_t)t->entries >> 32);
        values[i] = (float)((*state & 0xfffff) + 1) * 0x1p-20f;
    }
    bench_must(gpur_device_copy(t->counter.device, t->ids, ids, COUNT * (int64_t)sizeof *ids), "ids");
    bench_must(gpur_device_copy(t->counter.device, t->values, values, COUNT * (int64_t)sizeof *values), "values");
    free(values), free(ids);
}

/* The last ids and priorities stay, for what is measured. */
static void fill(tree *t)
{
    enum { TIMES = 8 };
    uint64_t state = 7;
    t->batch = TREE_MOST;
    for (int i = 0; i < TIMES; i++) {
        renew(t, &state);
        bench_must(tree_update(t, t->stream), "update");
    }
    bench_must(gpur_stream_sync(t->stream), "update");
}

void tree_open(tree *t, gpur_device *device, int64_t entries)
{
    const tree none = {.entries = entries};
    *t = none;
    counter_open(&t->counter, device);
    bench_must(gpur_stream_create(device, &t->stream), "stream");
    t->window = take(t, sizeof *t->window);
    t->id = take(t, TREE_MOST * (int64_t)sizeof *t->id);
    t->leaf = take(t, TREE_MOST * (int64_t)sizeof *t->leaf);
    t->ids = take(t, TREE_DRAWS * TREE_MOST * (int64_t)sizeof *t->ids);
    t->values = take(t, TREE_DRAWS * TREE_MOST * (int64_t)sizeof *t->values);
    build(t, device);
    enter(t);
    fill(t);
}

void tree_close(tree *t)
{
    gpur_device *const device = t->counter.device;
    gpur_priorities_destroy(&t->priorities);
    gpur_stream_destroy(t->stream);
    gpur_device_free(device, t->values), gpur_device_free(device, t->ids);
    gpur_device_free(device, t->leaf), gpur_device_free(device, t->id);
    gpur_device_free(device, t->window);
    counter_close(&t->counter);
}
