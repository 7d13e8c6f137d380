/* SPDX-License-Identifier: MIT */
/* Start-up: the time until there is something to train with, and the memory it takes [Parr 2018, section 5]. */
#include "contest.h"
#include "json.h"

#include <stdio.h>
#include <stdlib.h>

enum { BATCH = 32, ROUNDS = BENCH_FEWEST_ROUNDS, PART = 10000 };

typedef struct start_context {
    const contest_kind *kind;
    gpur_device *device;
    int64_t capacity, rows; /* rows: to be there at the end of the start */
    const melee_row *part;  /* (PART) */
    contestant made;
} start_context;

/* The same rows again and again: what they are does not matter, and making them is not what is timed. */
static void fill(start_context *s)
{
    gpur_writer *const writer = contestant_writer(&s->made);
    for (int64_t done = 0; done < s->rows; done += PART)
        s->kind->append(&s->made, writer, PART, s->part);
    gpur_writer_destroy(writer);
    bench_must(gpur_device_sync(s->device), "sync");
}

static void start(void *context, int64_t repeats)
{
    start_context *const s = context;
    (void)repeats; /* always one */
    contestant_open(&s->made, s->kind, s->device, s->capacity);
    contestant_learn(&s->made, BATCH);
    fill(s);
}

static void stop(void *context)
{
    start_context *const s = context;
    contestant_rest(&s->made);
    contestant_close(&s->made);
}

static const contest_kind *const kinds[] = {&contest_list, &contest_rows, &contest_device};
enum { KINDS = sizeof kinds / sizeof kinds[0] };

static void play(bench_report *report, const contest *c, int64_t rows, const melee_row *part)
{
    start_context made[KINDS];
    match m = {.figure = "start-up",
               .x_name = "transitions",
               .x = (double)rows,
               .item = "start",
               .count = KINDS,
               .rounds = ROUNDS,
               .reference = KINDS - 1};
    for (int i = 0; i < KINDS; i++) {
        made[i] =
            (start_context){.kind = kinds[i], .device = c->device, .capacity = c->capacity, .rows = rows, .part = part};
        m.entrant[i] =
            (match_entrant){.name = kinds[i]->name, .items = 1, .body = start, .context = &made[i], .after = stop};
    }
    match_play(report, &m);
}

typedef struct footprint {
    int64_t device, pinned, host;
} footprint;

/* The device is opened anew, so that what it tells is this contestant's alone. */
static footprint measure(const bench_report *report, const contest_kind *kind, int64_t capacity, const melee_row *part)
{
    gpur_device_info info = {.size = sizeof info};
    gpur_learner_stats stats = {.size = sizeof stats};
    gpur_device *const device = bench_open(report->options->device, 0);
    start_context s = {.kind = kind, .device = device, .capacity = capacity, .rows = capacity, .part = part};
    start(&s, 1);
    bench_must(gpur_device_get_info(device, &info), "device info");
    bench_must(gpur_learner_get_stats(s.made.learner, &stats), "learner statistics");
    const footprint taken = {info.memory_used, s.made.pinned_bytes + stats.pinned_bytes, kind->host_bytes(&s.made)};
    stop(&s);
    gpur_device_close(device);
    return taken;
}

static void json_memory(bench_report *report, const footprint *taken)
{
    bench_json_name(report, "memory");
    fprintf(report->json, ", \"figure\": \"memory\", \"entrants\": [");
    for (int i = 0; i < KINDS; i++) {
        fprintf(report->json, "%s\n  {\"entrant\": ", i ? "," : "");
        json_string(report->json, kinds[i]->name);
        fprintf(report->json, ", \"device_bytes\": %lld, \"pinned_bytes\": %lld, \"host_bytes\": %lld}",
                (long long)taken[i].device, (long long)taken[i].pinned, (long long)taken[i].host);
    }
    fprintf(report->json, "]}");
}

static void print_memory(const footprint *taken)
{
    printf("memory, 1,000,000 transitions: device, pinned, other host memory\n");
    for (int i = 0; i < KINDS; i++)
        printf("  %-28s %8.1f MB %8.1f MB %8.1f MB\n", kinds[i]->name, 1e-6 * (double)taken[i].device,
               1e-6 * (double)taken[i].pinned, 1e-6 * (double)taken[i].host);
    fflush(stdout);
}

static void report_memory(bench_report *report, const contest *c, const melee_row *part)
{
    footprint taken[KINDS];
    for (int i = 0; i < KINDS; i++) {
        bench_show(report, "memory", (double)i / KINDS);
        taken[i] = measure(report, kinds[i], c->capacity, part);
    }
    if (report->json)
        json_memory(report, taken);
    bench_hide();
    print_memory(taken);
    report->done++;
}

void contest_starts(bench_report *report, const contest *c)
{
    melee_row *const part = bench_melee_rows(PART);
    play(report, c, 0, part);
    play(report, c, c->capacity, part);
    report_memory(report, c, part);
    free(part);
}
