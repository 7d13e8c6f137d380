/* SPDX-License-Identifier: MIT */
/*
 * Samples and updates by priority, of 1,000,000 and 10,000,000 transitions of one byte, against a plainly written
 * binary sum tree in double. Ours includes what comes with the call: the gather of that byte, discounts, ids, a batch
 * of the pool; for updates the check of the ids. The device uses all its threads; the tree uses one.
 */
#include "bench/lib/bench.h"
#include "bench/lib/setup.h"

#include <math.h>
#include <stdlib.h>

/*
 * Prioritized replay as it is commonly written for a CPU: a binary tree of sums in one array, in which node n has the
 * children 2 n and 2 n + 1; a sample descends it and updates ascend it [Schaul et al. 2016, appendix B.2.1].
 */
typedef struct sum_tree {
    int64_t entries, leaves; /* leaves: the next power of two */
    double *sum;             /* (2 leaves) from 1 on */
    uint64_t random;
} sum_tree;

/* All priorities are 1. */
static void open_tree(sum_tree *tree, int64_t entries)
{
    tree->entries = entries;
    tree->random = 1;
    for (tree->leaves = 1; tree->leaves < entries; tree->leaves *= 2)
        continue;
    tree->sum = bench_allocate((size_t)(2 * tree->leaves) * sizeof *tree->sum);
    for (int64_t i = 0; i < entries; i++)
        tree->sum[tree->leaves + i] = 1.0;
    for (int64_t n = tree->leaves - 1; n >= 1; n--)
        tree->sum[n] = tree->sum[2 * n] + tree->sum[2 * n + 1];
}

static int64_t find_entry(const sum_tree *tree, double mass)
{
    int64_t n = 1;
    while (n < tree->leaves) {
        n *= 2;
        if (mass >= tree->sum[n])
            mass -= tree->sum[n], n++;
    }
    return n - tree->leaves;
}

/* Stratified: one entry of each of `count` equal parts of the sum, with weights (N P)^-beta divided by the largest. */
static void draw_entries(sum_tree *tree, int64_t count, double beta, int64_t *entries, float *weights)
{
    const double total = tree->sum[1], part = total / (double)count;
    float largest = 0.0f;
    for (int64_t i = 0; i < count; i++) {
        const double uniform = (double)(bench_random(&tree->random) >> 11) * 0x1p-53;
        entries[i] = find_entry(tree, ((double)i + uniform) * part);
        const double p = tree->sum[tree->leaves + entries[i]] / total;
        weights[i] = powf((float)((double)tree->entries * p), (float)-beta);
        largest = weights[i] > largest ? weights[i] : largest;
    }
    for (int64_t i = 0; i < count; i++)
        weights[i] /= largest;
}

/* New priorities (|error| + 1e-6)^alpha. */
static void update_entries(sum_tree *tree, int64_t count, const int64_t *entries, const float *errors, double alpha)
{
    for (int64_t i = 0; i < count; i++) {
        int64_t n = tree->leaves + entries[i];
        tree->sum[n] = (double)powf(fabsf(errors[i]) + 1e-6f, (float)alpha);
        for (n /= 2; n >= 1; n /= 2)
            tree->sum[n] = tree->sum[2 * n] + tree->sum[2 * n + 1];
    }
}

enum { MAX_ROWS = 65536, INDICES = 1 << 20 };

typedef struct priority_context {
    gpur_replay *replay;
    sum_tree tree;
    int64_t count, position;
    int64_t *ids;   /* (INDICES) */
    float *errors;  /* (INDICES) */
    int64_t *drawn; /* (MAX_ROWS) */
    float *weights; /* (MAX_ROWS) */
} priority_context;

static void draw(void *context, int64_t repeats)
{
    const priority_context *const c = context;
    for (int64_t i = 0; i < repeats; i++) {
        gpur_batch *batch = NULL;
        bench_must(gpur_replay_sample(c->replay, c->count, NULL, &batch), "sample");
        gpur_batch_release(batch);
    }
    bench_sample(c->replay, 1);
}

static void draw_from_tree(void *context, int64_t repeats)
{
    priority_context *const c = context;
    for (int64_t i = 0; i < repeats; i++)
        draw_entries(&c->tree, c->count, 0.4, c->drawn, c->weights);
}

/* Where the next update's ids and errors begin. */
static int64_t next_position(priority_context *c)
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
        const int64_t at = next_position(c);
        bench_must(gpur_replay_update_priorities(c->replay, c->count, c->ids + at, c->errors + at, NULL), "update");
    }
    bench_sample(c->replay, 1);
}

static void update_tree(void *context, int64_t repeats)
{
    priority_context *const c = context;
    for (int64_t i = 0; i < repeats; i++) {
        const int64_t at = next_position(c);
        update_entries(&c->tree, c->count, c->ids + at, c->errors + at, 0.6);
    }
}

static gpur_replay *open_replay(gpur_device *device, int64_t entries)
{
    static const gpur_field byte = {"byte", GPUR_UINT8, {0}};
    gpur_replay_config config;
    unsigned char *const rows = bench_allocate((size_t)entries);
    bench_must(gpur_replay_config_init(&config, sizeof config), "config");
    config.capacity = entries + MAX_ROWS, config.max_batch = MAX_ROWS;
    config.fields = &byte, config.field_count = 1;
    config.prioritized = 1, config.index_source = GPUR_PRIORITIZED_STRATIFIED;
    gpur_replay *const replay = bench_create(device, &config);
    gpur_writer *const writer = bench_writer(replay);
    bench_must(gpur_writer_append(writer, entries, rows, NULL), "append");
    gpur_writer_destroy(writer);
    free(rows);
    bench_sample(replay, 1);
    return replay;
}

/* Gives both the same random priorities. */
static void set_priorities(priority_context *c, int64_t entries)
{
    uint64_t state = 7;
    for (int64_t i = 0; i < INDICES; i++) {
        c->ids[i] = bench_random_below(&state, entries);
        c->errors[i] = bench_random_unit(&state);
    }
    c->count = MAX_ROWS, c->position = 0;
    for (int i = 0; i < INDICES / MAX_ROWS; i++) {
        const int64_t at = next_position(c);
        bench_must(gpur_replay_update_priorities(c->replay, MAX_ROWS, c->ids + at, c->errors + at, NULL), "update");
        update_entries(&c->tree, MAX_ROWS, c->ids + at, c->errors + at, 0.6);
    }
}

static void run_case(bench_report *report, priority_context *c, int64_t entries, int64_t count, int updates)
{
    char name[64];
    snprintf(name, sizeof name, "%s %lld of %lld M", updates ? "update" : "draw", (long long)count,
             (long long)(entries / 1000000));
    c->count = count;
    bench_case one = bench_versus(name, "row", (double)count, updates ? update : draw, "binary sum tree in double",
                                  updates ? update_tree : draw_from_tree, c);
    one.goal = 1.0;
    bench_run(report, &one);
}

static void run_cases(bench_report *report, gpur_device *device, priority_context *c, int64_t entries, int cases)
{
    static const int64_t counts[] = {32, 4096, 128, 512, MAX_ROWS};
    c->replay = open_replay(device, entries);
    open_tree(&c->tree, entries);
    set_priorities(c, entries);
    for (int i = 0; i < cases; i++)
        for (int updates = 0; updates < 2; updates++)
            run_case(report, c, entries, counts[i], updates);
    gpur_replay_destroy(c->replay);
    free(c->tree.sum);
}

int main(int argc, char **argv)
{
    const bench_options options =
        bench_parse(argc, argv, "draws and updates by priority against a binary sum tree", NULL, 0);
    gpur_device *const device = bench_open(options.device, 0);
    priority_context c = {.ids = bench_allocate(INDICES * sizeof *c.ids),
                          .errors = bench_allocate(INDICES * sizeof *c.errors),
                          .drawn = bench_allocate(MAX_ROWS * sizeof *c.drawn),
                          .weights = bench_allocate(MAX_ROWS * sizeof *c.weights)};
    bench_report report = bench_begin(&options, "priorities", bench_describe(device), options.quick ? 4 : 20);
    run_cases(&report, device, &c, 1000000, options.quick ? 2 : 5);
    if (!options.quick)
        run_cases(&report, device, &c, 10000000, 5);
    gpur_device_close(device);
    free(c.ids), free(c.errors), free(c.drawn), free(c.weights);
    return bench_end(&report);
}
