/* SPDX-License-Identifier: MIT */
/*
 * How far from what the machine can do: the bytes that an operation must move and the sums it must do, at the rates
 * that were measured in the same run, against the time it takes. Activations are not counted: they stay in caches.
 */
#include "contest.h"
#include "json.h"

#include <stdio.h>
#include <stdlib.h>

enum { ROW = 256, GATHERED = (int)sizeof(melee_row) + 4 + 4 + 8 }; /* bytes: in the ring; in a batch, with its extras */
enum { F = MELEE_OBS, H = 128, S = 512, A = MELEE_ACTIONS };
enum { FIRST = F * H, SECOND = H * 2 * S, LAST = S * (1 + A), WEIGHTS = FIRST + SECOND + LAST + H + 2 * S + 1 + A };
enum { UPDATE = 2000, GRADIENT_PASSES = 8 }; /* 4 read and 3 written by the update, 1 read for the norm */

typedef struct part {
    const char *what;
    double up, within, flops; /* of one item: bytes over the bus, bytes in the device's memory, operations */
} part;

static double bound_of(const part *p, const ceilings *most)
{
    return p->up / most->up + p->within / most->within + p->flops / most->flops;
}

static void report_part(bench_report *report, const ceilings *most, const part *p, double seconds)
{
    const double bound = bound_of(p, most);
    printf("    %.0f B up, %.0f B within, %.3g FLOP: %.3f us at the ceilings; it takes %.1f times as long\n", p->up,
           p->within, p->flops, 1e6 * bound, seconds / bound);
    if (!report->json)
        return;
    fprintf(report->json, ",\n{\"name\": ");
    json_string(report->json, p->what);
    fprintf(report->json,
            ", \"figure\": \"roofline\", \"seconds\": %.4e, \"bound_seconds\": %.4e, \"bytes_up\": %.0f, "
            "\"bytes_within\": %.0f, \"flops\": %.0f}",
            seconds, bound, p->up, p->within, p->flops);
}

static void measure(bench_report *report, const ceilings *most, const part *p, bench_figure figure)
{
    figure.name = p->what;
    report_part(report, most, p, bench_measure(report, &figure).median);
}

typedef struct append_context {
    contestant *player;
    gpur_writer *writer;
    melee_row *rows; /* (UPDATE) */
} append_context;

static void append(void *context, int64_t repeats)
{
    const append_context *const a = context;
    for (int64_t i = 0; i < repeats; i++)
        bench_must(gpur_writer_append(a->writer, UPDATE, a->rows, NULL), "append");
    bench_must(gpur_device_sync(a->player->device), "sync");
}

static void measure_append(bench_report *report, contest *c, const ceilings *most)
{
    append_context a = {.player = &c->player[CONTEST_DEVICE], .rows = bench_melee_rows(UPDATE)};
    const part p = {.what = "roofline: append in blocks of 2,000", .up = ROW};
    a.writer = contestant_writer(a.player);
    measure(
        report, most, &p,
        (bench_figure){.items = UPDATE, .item = "transition", .work = ROW, .unit = "B", .body = append, .context = &a});
    gpur_writer_destroy(a.writer);
    free(a.rows);
}

static void gather(void *context, int64_t repeats)
{
    const contestant *const c = context;
    for (int64_t i = 0; i < repeats; i++) {
        gpur_batch *batch = NULL;
        bench_must(gpur_replay_sample(c->replay, c->batch, NULL, &batch), "sample");
        gpur_batch_release(batch);
    }
    bench_must(gpur_device_sync(c->device), "sync");
}

static void train(void *context, int64_t repeats)
{
    contestant *const c = context;
    c->kind->train(c, repeats);
}

/* Two forward passes, the gradient of every weight, and that of the inputs of all layers but the first. */
static double step_flops(double batch)
{
    const double forward = FIRST + SECOND + LAST;
    return 2 * batch * (2 * forward + forward + (forward - FIRST));
}

void contest_roofline(bench_report *report, contest *c, const ceilings *most, int64_t batch)
{
    contestant *const device = &c->player[CONTEST_DEVICE];
    const double rows = (double)batch * (ROW + GATHERED);
    char names[2][64];
    snprintf(names[0], sizeof names[0], "roofline: sample, batch %lld", (long long)batch);
    snprintf(names[1], sizeof names[1], "roofline: train step, batch %lld", (long long)batch);
    const part sample = {.what = names[0], .within = rows};
    const part step = {
        .what = names[1], .within = rows + 4.0 * GRADIENT_PASSES * WEIGHTS, .flops = step_flops((double)batch)};
    measure_append(report, c, most);
    contestant_learn(device, batch);
    measure(report, most, &sample,
            (bench_figure){.items = 1, .item = "batch", .work = rows, .unit = "B", .body = gather, .context = device});
    measure(report, most, &step,
            (bench_figure){
                .items = 1, .item = "step", .work = step.flops, .unit = "FLOP", .body = train, .context = device});
    contestant_rest(device);
}
