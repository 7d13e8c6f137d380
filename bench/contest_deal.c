/* SPDX-License-Identifier: MIT */
/*
 * What the contestants in RAM pay twice on the CPU device: rows put together in a host batch are copied as over a bus,
 * and dealt out to the arrays of the step in another pass. Timed as such a copy and a whole draw out of a replay so
 * small that it stays in the cache, as a host batch does: no less than those passes.
 */
#include "contest.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct deal_context {
    gpur_device *device;
    gpur_replay *replay;
    int64_t batch;
    melee_row *rows, *copy; /* (batch) */
} deal_context;

static void deal(void *context, int64_t repeats)
{
    const deal_context *const d = context;
    for (int64_t i = 0; i < repeats; i++) {
        gpur_batch *batch = NULL;
        memcpy(d->copy, d->rows, (size_t)d->batch * sizeof *d->copy);
        bench_must(gpur_replay_sample(d->replay, d->batch, NULL, &batch), "sample");
        gpur_batch_release(batch);
    }
    bench_must(gpur_device_sync(d->device), "sync");
}

static void train(void *context, int64_t repeats)
{
    contestant *const c = context;
    c->kind->train(c, repeats);
}

static void open_small(deal_context *d)
{
    gpur_replay_config config;
    bench_melee_config(&config, 0);
    contest_lend(&config);
    bench_must(gpur_replay_create(d->device, &config, &d->replay), "replay");
    bench_fill(d->replay, config.capacity);
    bench_must(gpur_device_sync(d->device), "sync");
    d->rows = bench_melee_rows(d->batch);
    d->copy = bench_melee_rows(d->batch);
}

static void close_small(deal_context *d)
{
    free(d->rows);
    free(d->copy);
    gpur_replay_destroy(d->replay);
}

static double measure(bench_report *report, const char *what, int64_t batch, bench_figure figure)
{
    char name[64];
    snprintf(name, sizeof name, "%s, batch %lld", what, (long long)batch);
    figure.name = name, figure.items = 1;
    return bench_measure(report, &figure).median;
}

void contest_deals(bench_report *report, contest *c, int64_t batch)
{
    contestant *const rows = &c->player[CONTEST_ROWS];
    deal_context d = {.device = c->device, .batch = batch};
    open_small(&d);
    contestant_learn(rows, batch);
    const bench_figure passes = {.item = "batch", .body = deal, .context = &d};
    const bench_figure step = {.item = "step", .body = train, .context = rows};
    const double dealing = measure(report, "a copy, and a draw out of the cache", batch, passes);
    const double whole = measure(report, "train step, in-RAM, done well", batch, step);
    printf("    copying and dealing out the rows of a host batch take at most %.2f %% of a step\n",
           100 * dealing / whole);
    contestant_rest(rows);
    close_small(&d);
}
