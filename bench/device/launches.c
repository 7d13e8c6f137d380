/* SPDX-License-Identifier: MIT */
/* What a kernel costs that does nothing: in a recording, outside of one, and the cost of waiting for one another. */
#include "bench/device/parts.h"
#include "bench/device/recorded.h"
#include "bench/setup.h"

enum { REPETITIONS = 32, LAUNCHES = 64 };

/* y += 1, again and again: each kernel needs the one before. */
typedef struct chain {
    gpur_device *device;
    float *memory; /* y, the bias 1 */
    int length;
} chain;

static gpur_status record_chain(void *context, gpur_stream *stream)
{
    const chain *const c = context;
    const gpur_bias_activation_args args = {
        .y = c->memory, .bias = c->memory + 1, .batch = 1, .features = 1, .pitch = 1};
    for (int i = 0; i < c->length; i++)
        GPUR_TRY(gpur_launch_bias_activation(stream, gpur_grid_elements(c->device, 1), &args));
    return GPUR_OK;
}

static void measure_chain(bench_report *report, chain *c, int unroll)
{
    char name[64];
    recorded r;
    snprintf(name, sizeof name, "recorded chain of %d, %d repetitions, unroll %d", c->length, REPETITIONS, unroll);
    recorded_open(&r, c->device, record_chain, c, unroll, REPETITIONS);
    const bench_figure figure = {
        .name = name, .items = (double)c->length * REPETITIONS, .item = "node", .body = recorded_run, .context = &r};
    bench_measure(report, &figure);
    recorded_close(&r);
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
        bench_must(record_chain(&p->chain, p->stream[0]), "launch");
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
    const float start[2] = {0.0f, 1.0f};
    void *memory = NULL;
    bench_must(gpur_device_alloc(device, sizeof start, &memory), "memory");
    bench_must(gpur_device_copy(device, memory, start, sizeof start), "copy");
    chain c = {device, memory, 0};
    for (int i = 0; i < 4; i++) {
        c.length = lengths[i];
        measure_chain(report, &c, 1);
        measure_chain(report, &c, 8);
    }
    measure_pair(report, &c);
    gpur_device_free(device, memory);
}
