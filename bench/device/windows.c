/* SPDX-License-Identifier: MIT */
/* With and without a part of the L2 cache set aside: for all memory of a learner during its train steps, and for the
 * upper levels of a sum tree during draws. Graphs of the same captured work, so that nothing else differs. */
#include "bench/device/absent.h"
#include "bench/device/parts.h"
#include "bench/device/probes.h"
#include "bench/device/trees.h"
#include "bench/setup.h"
#include "learn/learner.h"
#include "replay/sampler/consumer.h"

enum { UNROLL = 8, ENTRIES = 16000000 };

typedef struct kept_work {
    const char *name; /* "draw 4096 of 16 M by priority" */
    const char *item;
    double items; /* of one recording */
    gpur_record_fn record;
    void *context;
    probe_window window;
} kept_work;

static void name_graph(char *name, size_t bytes, const char *work, int keep)
{
    snprintf(name, bytes, "%s, L2 %s", work, keep ? "window" : "as it is");
}

static void measure_graph(bench_report *report, gpur_device *device, const kept_work *work, int keep)
{
    char name[128];
    const probe_window none = {NULL, 0};
    probe_graph *graph;
    name_graph(name, sizeof name, work->name, keep);
    const gpur_status status =
        probe_graph_window(device, work->record, work->context, UNROLL, keep ? work->window : none, &graph);
    if (status != GPUR_OK) {
        bench_missing(report, name, status);
        return;
    }
    const bench_figure figure = {
        .name = name, .items = work->items * UNROLL, .item = work->item, .body = probe_graph_run, .context = graph};
    bench_measure(report, &figure);
    probe_graph_destroy(graph);
}

static void measure(bench_report *report, gpur_device *device, const kept_work *work)
{
    measure_graph(report, device, work, 0);
    measure_graph(report, device, work, 1);
}

static void measure_none(bench_report *report, const char *work, gpur_status status)
{
    char name[128];
    for (int keep = 0; keep <= 1; keep++) {
        name_graph(name, sizeof name, work, keep);
        bench_missing(report, name, status);
    }
}

/* The learner has run its step once already, and nobody else has a turn while the graphs run. */
static void measure_step(bench_report *report, gpur_device *device, gpur_replay *replay)
{
    static const char name[] = "melee-gpu step, batch 256, fp32";
    gpur_learner_config config;
    gpur_learner *learner = NULL;
    gpur_stream *stream = NULL;
    bench_must(gpur_learner_config_init(&config, sizeof config), "learner config");
    bench_must(gpur_learner_config_preset(&config, "melee-gpu"), "preset");
    config.batch_size = 256;
    const gpur_status status = gpur_learner_create(replay, &config, &learner);
    if (status != GPUR_OK) {
        measure_none(report, name, status);
        return;
    }
    bench_must(gpur_consumer_begin(replay, config.batch_size, &stream), "a turn");
    bench_must(gpur_stream_sync(stream), "a turn");
    const kept_work work = {.name = name,
                            .item = "step",
                            .items = 1,
                            .record = gpur_step_record,
                            .context = &learner->step,
                            .window = {learner->memory, learner->memory_bytes}};
    measure(report, device, &work);
    bench_must(gpur_consumer_end(replay), "a turn");
    gpur_learner_destroy(learner);
}

/* Sums lie behind one another, the lowest level first. */
static probe_window upper_levels(const tree *t)
{
    const gpur_tree *const all = &t->priorities.tree;
    const int32_t top = all->levels - 1;
    const probe_window window = {all->sum[0], (char *)(all->sum[top] + GPUR_TREE_FAN) - (char *)all->sum[0]};
    return window;
}

static void measure_draws(bench_report *report, gpur_device *device)
{
    tree t;
    tree_open(&t, device, ENTRIES);
    t.batch = TREE_MOST;
    const kept_work work = {.name = "draw 4096 of 16 M by priority",
                            .item = "draw",
                            .items = TREE_DRAWS,
                            .record = tree_draw,
                            .context = &t,
                            .window = upper_levels(&t)};
    measure(report, device, &work);
    tree_close(&t);
}

void bench_windows(bench_report *report, gpur_device *device, gpur_replay *replay)
{
    measure_step(report, device, replay);
    measure_draws(report, device);
}
