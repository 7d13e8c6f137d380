/* SPDX-License-Identifier: MIT */
/*
 * Draws and updates by priority, of 1,000,000 and 10,000,000 transitions of one byte, against a binary sum tree in
 * double that is written plainly. Ours comes with what the call has beside it: the gather of that byte, discounts, ids,
 * a batch of the pool; updates with their ids' check. All cores that the device has; the tree has one.
 */
#include "bench.h"
#include "setup.h"
#include "sum_tree.h"

#include <stdlib.h>

enum { MOST = 65536, INDICES = 1 << 20 };

typedef struct priority_context {
    gpur_replay *replay;
    sum_tree tree;
    int64_t count, position;
    int64_t *ids;   /* (INDICES) */
    float *errors;  /* (INDICES) */
    int64_t *drawn; /* (MOST) */
    float *weights; /* (MOST) */
} priority_context;

static void wait(gpur_replay *replay)
{
    gpur_batch *last = NULL;
    bench_must(gpur_replay_sample(replay, 1, NULL, &last), "sample");
    bench_must(gpur_batch_sync(last), "sync");
    gpur_batch_release(last);
}

static void sample(void *context, int64_t repeats)
{
    const priority_context *const c = context;
    for (int64_t i = 0; i < repeats; i++) {
        gpur_batch *batch = NULL;
        bench_must(gpur_replay_sample(c->replay, c->count, NULL, &batch), "sample");
        gpur_batch_release(batch);
    }
    wait(c->replay);
}

static void walk_down(void *context, int64_t repeats)
{
    priority_context *const c = context;
    for (int64_t i = 0; i < repeats; i++)
        sum_tree_draw(&c->tree, c->count, 0.4, c->drawn, c->weights);
}

/* Where the next update's ids and errors lie. */
static int64_t next(priority_context *c)
{
    if (c->position + c->count > INDICES)
        c->position = 0;
    c->position += c->count;
    return c->position - c->count;
}

static void update(void *context, int64_t repeats)
{
    priority_context *const c = context;
    for (int64_t i = 0; i < repeats; i++) {
        const int64_t at = next(c);
        bench_must(gpur_replay_update_priorities(c->replay, c->count, c->ids + at, c->errors + at, NULL), "update");
    }
    wait(c->replay);
}

static void walk_up(void *context, int64_t repeats)
{
    priority_context *const c = context;
    for (int64_t i = 0; i < repeats; i++) {
        const int64_t at = next(c);
        sum_tree_update(&c->tree, c->count, c->ids + at, c->errors + at, 0.6);
    }
}

static void open_replay(priority_context *c, gpur_device *device, int64_t entries)
{
    static const gpur_field byte = {"byte", GPUR_UINT8, {0}};
    gpur_replay_config config;
    gpur_writer *writer = NULL;
    unsigned char *const rows = calloc((size_t)entries, 1);
    bench_must(gpur_replay_config_init(&config, sizeof config), "config");
    config.capacity = entries + MOST, config.max_batch = MOST;
    config.fields = &byte, config.field_count = 1;
    config.prioritized = 1, config.index_source = GPUR_PRIORITIZED;
    bench_must(gpur_replay_create(device, &config, &c->replay), "replay");
    bench_must(gpur_writer_create(c->replay, 1, &writer), "writer");
    bench_must(rows ? gpur_writer_append(writer, entries, rows, NULL) : GPUR_OUT_OF_MEMORY, "append");
    gpur_writer_destroy(writer);
    free(rows);
    wait(c->replay);
}

/* The same random priorities in both. */
static void fill(priority_context *c, int64_t entries)
{
    uint64_t state = 7;
    for (int64_t i = 0; i < INDICES; i++) {
        state = state * 6364136223846793005ull + 1442695040888963407ull;
        c->ids[i] = (int64_t)((state >> 32) * (uint64_t)entries >> 32);
        c->errors[i] = (float)(state >> 40) * 0x1p-24f;
    }
    for (c->count = MOST, c->position = 0; c->position < INDICES;) {
        const int64_t at = next(c);
        bench_must(gpur_replay_update_priorities(c->replay, MOST, c->ids + at, c->errors + at, NULL), "update");
        sum_tree_update(&c->tree, MOST, c->ids + at, c->errors + at, 0.6);
        if (c->position == INDICES)
            break;
    }
}

static void run_case(bench_report *report, priority_context *c, int64_t entries, int64_t count, int updates)
{
    char name[64];
    snprintf(name, sizeof name, "%s %lld of %lld M", updates ? "update" : "draw", (long long)count,
             (long long)(entries / 1000000));
    c->count = count;
    const bench_case one = {.name = name, .baseline = "binary sum tree in double", .items = (double)count,
                            .item = "row", .goal = 1.0, .ours = updates ? update : sample,
                            .bare = updates ? walk_up : walk_down, .context = c};
    bench_run(report, &one);
}

static void run_cases(bench_report *report, gpur_device *device, priority_context *c, int64_t entries, int cases)
{
    static const int64_t counts[] = {32, 4096, 128, 512, 65536};
    open_replay(c, device, entries);
    sum_tree_open(&c->tree, entries);
    fill(c, entries);
    for (int i = 0; i < cases; i++)
        for (int updates = 0; updates < 2; updates++)
            run_case(report, c, entries, counts[i], updates);
    gpur_replay_destroy(c->replay);
    sum_tree_close(&c->tree);
}

int main(int argc, char **argv)
{
    bench_options options;
    bench_report report;
    char settings[256];
    const int stop = bench_parse(&options, argc, argv, "draws and updates by priority against a binary sum tree");
    if (stop)
        return stop - 1;
    gpur_device *const device = bench_open(options.device, 0);
    priority_context c = {.ids = malloc(INDICES * sizeof *c.ids),
                          .errors = malloc(INDICES * sizeof *c.errors),
                          .drawn = malloc(MOST * sizeof *c.drawn),
                          .weights = malloc(MOST * sizeof *c.weights)};
    if (!c.ids || !c.errors || !c.drawn || !c.weights)
        bench_must(GPUR_OUT_OF_MEMORY, "indices");
    bench_describe(device, settings, sizeof settings);
    if (bench_begin(&report, &options, "priorities", settings, options.quick ? 4 : 20))
        return 1;
    run_cases(&report, device, &c, 1000000, options.quick ? 2 : 5);
    if (!options.quick)
        run_cases(&report, device, &c, 10000000, 5);
    gpur_device_close(device);
    free(c.ids), free(c.errors), free(c.drawn), free(c.weights);
    return bench_end(&report);
}
