/* SPDX-License-Identifier: MIT */
/* Draws and updates by priority inside a recording, with nothing beside them: bench_priority has whole calls. What they
 * leave is compared with a CPU device that was asked the same. */
#include "bench/device/equal.h"
#include "bench/device/parts.h"
#include "bench/device/recorded.h"
#include "bench/device/trees.h"
#include "bench/setup.h"

#include <stdlib.h>

static void measure(bench_report *report, gpur_device *device, tree *t, int updates)
{
    char name[96];
    const recorded_work work = {updates ? tree_update : tree_draw, t, 1, 1};
    snprintf(name, sizeof name, "%s %lld of %lld M by priority, recorded", updates ? "update" : "draw",
             (long long)t->batch, (long long)(t->entries / 1000000));
    const bench_figure figure = {.name = name,
                                 .items = TREE_DRAWS,
                                 .item = updates ? "update" : "draw",
                                 .rounds = report->options->rounds < 15 ? report->options->rounds : 15};
    recorded_measure(report, device, figure, &work);
}

/* From the memory of both trees: `count` numbers of `size` bytes. */
static int64_t compare(const tree *a, const tree *b, const void *of_a, const void *of_b, int64_t count, size_t size)
{
    const int64_t bytes = count * (int64_t)size;
    char *const both = malloc(2 * (size_t)bytes);
    if (!both)
        bench_must(GPUR_OUT_OF_MEMORY, "what two trees hold");
    bench_must(gpur_device_copy(a->counter.device, both, of_a, bytes), "a tree");
    bench_must(gpur_device_copy(b->counter.device, both + bytes, of_b, bytes), "a tree");
    const int64_t differ = differing(both, both + bytes, count, size);
    free(both);
    return differ;
}

static void compare_trees(bench_report *report, const tree *a, const tree *b)
{
    char name[64];
    const gpur_tree *const x = &a->priorities.tree, *const y = &b->priorities.tree;
    int64_t differ = 0, of = 0;
    snprintf(name, sizeof name, "leaves of %lld M, here and on the CPU", (long long)(a->entries / 1000000));
    bench_equal(report, name, compare(a, b, x->leaf, y->leaf, a->entries, sizeof *x->leaf), a->entries);
    for (int32_t l = 0; l < x->levels; l++) {
        const int64_t nodes = gpur_tree_nodes(x, l);
        differ += compare(a, b, x->sum[l], y->sum[l], nodes, sizeof *x->sum[l]);
        of += nodes;
    }
    snprintf(name, sizeof name, "sums above them of %lld M, here and on the CPU", (long long)(a->entries / 1000000));
    bench_equal(report, name, differ, of);
}

/* TREE_MOST rows, of a step that neither has drawn for. */
static void compare_draws(bench_report *report, tree *a, tree *b)
{
    char name[64];
    tree *const both[] = {a, b};
    for (int i = 0; i < 2; i++) {
        const gpur_priorities *const p = &both[i]->priorities;
        gpur_priority_draw_args args = gpur_priorities_draw(p, GPUR_PRIORITIZED, TREE_MOST, both[i]->id, both[i]->leaf);
        args.seed = 11, args.step_value = 3;
        bench_must(gpur_launch_priority_draw(both[i]->stream, gpur_priorities_draw_grid(p, TREE_MOST), &args), "draw");
        bench_must(gpur_stream_sync(both[i]->stream), "draw");
    }
    snprintf(name, sizeof name, "draws of %lld M, here and on the CPU", (long long)(a->entries / 1000000));
    bench_equal(report, name, compare(a, b, a->id, b->id, TREE_MOST, sizeof *a->id), TREE_MOST);
}

static void check(bench_report *report, tree *t)
{
    tree mirror;
    gpur_device *const cpu = bench_open("cpu", 1);
    tree_open(&mirror, cpu, t->entries);
    t->batch = mirror.batch = TREE_MOST;
    tree *const both[] = {t, &mirror};
    for (int i = 0; i < 2; i++) { /* every row of the measured updates gets its last priority here */
        bench_must(tree_update(both[i], both[i]->stream), "update");
        bench_must(gpur_stream_sync(both[i]->stream), "update");
    }
    compare_trees(report, t, &mirror);
    compare_draws(report, t, &mirror);
    tree_close(&mirror);
    gpur_device_close(cpu);
}

static void measure_entries(bench_report *report, gpur_device *device, int64_t entries)
{
    static const int64_t batches[] = {32, 1024, 4096, 128, 512};
    const int count = report->options->quick ? 3 : 5;
    tree t;
    tree_open(&t, device, entries);
    for (int i = 0; i < count; i++)
        for (int updates = 0; updates < 2; updates++) {
            t.batch = batches[i];
            measure(report, device, &t, updates);
        }
    check(report, &t);
    tree_close(&t);
}

void bench_priorities(bench_report *report, gpur_device *device)
{
    measure_entries(report, device, 1000000);
    if (!report->options->quick)
        measure_entries(report, device, 16000000);
}
