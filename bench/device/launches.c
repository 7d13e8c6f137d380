/* SPDX-License-Identifier: MIT */
/* What a kernel costs that does nothing: in a recording, outside of one, and the cost of waiting for one another. */
#include "bench/device/absent.h"
#include "bench/device/chain.h"
#include "bench/device/parts.h"
#include "bench/device/probes.h"
#include "bench/device/recorded.h"
#include "bench/setup.h"

enum { REPETITIONS = 32, LAUNCHES = 64 };

/* `dependent`: each kernel is launched while the one before still runs, and waits for its end by itself. */
static void measure_chain(bench_report *report, chain *c, int unroll, int dependent)
{
    char name[96];
    const recorded_work work = {chain_record, c, unroll, REPETITIONS};
    snprintf(name, sizeof name, "recorded chain of %d, %d repetitions, unroll %d%s", c->length, REPETITIONS, unroll,
             dependent ? ", dependent launches" : "");
    const bench_figure figure = {.name = name, .items = (double)c->length * REPETITIONS, .item = "node"};
    if (dependent && probe_needs_dependent_launches(c->device) != GPUR_OK) {
        bench_absent(report, name, gpur_last_error());
        return;
    }
    gpur_device_dependent_launches(c->device, dependent);
    recorded_measure(report, c->device, figure, &work);
    gpur_device_dependent_launches(c->device, 0);
}

/* A second stream and an event of each, to wait for one another with. */
typedef struct pair {
    chain chain;
    gpur_stream *stream[2];
    gpur_event *event[2];
} pair;

static void launch(void *context, int64_t repeats)
{
    pair *const p = context;
    for (int64_t i = 0; i < repeats; i++)
        bench_must(chain_record(&p->chain, p->stream[0]), "launch");
    bench_must(gpur_stream_sync(p->stream[0]), "sync");
}

static void wait_on_host(void *context, int64_t repeats)
{
    const pair *const p = context;
    for (int64_t i = 0; i < repeats; i++) {
        bench_must(gpur_event_record(p->event[0], p->stream[0]), "event");
        bench_must(gpur_event_sync(p->event[0]), "event");
    }
}

/* Stream `from` marks an event that the other waits for. */
static void hand_over(const pair *p, int from)
{
    bench_must(gpur_event_record(p->event[from], p->stream[from]), "event");
    bench_must(gpur_stream_wait(p->stream[1 - from], p->event[from]), "event");
}

static void wait_on_streams(void *context, int64_t repeats)
{
    const pair *const p = context;
    for (int64_t i = 0; i < repeats; i++) {
        hand_over(p, 0);
        hand_over(p, 1);
    }
    bench_must(gpur_stream_sync(p->stream[0]), "sync");
}

static void measure_pair(bench_report *report, const chain *c)
{
    pair p = {.chain = *c};
    p.chain.length = LAUNCHES;
    for (int i = 0; i < 2; i++) {
        bench_must(gpur_stream_create(c->device, &p.stream[i]), "stream");
        bench_must(gpur_event_create(c->device, &p.event[i]), "event");
    }
    const bench_figure figures[] = {
        {.name = "launches outside a recording", .items = LAUNCHES, .item = "launch", .body = launch, .context = &p},
        {.name = "event recorded, host waits", .items = 1, .item = "wait", .body = wait_on_host, .context = &p},
        {.name = "two streams wait for each other", .items = 1, .item = "turn", .body = wait_on_streams, .context = &p},
    };
    for (int i = 0; i < 3; i++)
        bench_measure(report, &figures[i]);
    for (int i = 0; i < 2; i++) {
        gpur_stream_destroy(p.stream[i]);
        gpur_event_destroy(p.event[i]);
    }
}

void bench_launches(bench_report *report, gpur_device *device)
{
    static const int lengths[] = {1, 8, 64, 512};
    chain c;
    chain_open(&c, device);
    for (int i = 0; i < 4; i++) {
        c.length = lengths[i];
        measure_chain(report, &c, 1, 0);
        measure_chain(report, &c, 8, 0);
        measure_chain(report, &c, 8, 1);
    }
    measure_pair(report, &c);
    chain_close(&c);
}
