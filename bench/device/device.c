/* SPDX-License-Identifier: MIT */
/* What a device takes for the parts of a recorded step and for whole steps: the figures that decide how a step is
 * recorded by default. */
#include "bench/device/parts.h"

#include "replay/sampler/consumer.h"

gpur_status recorded_open(recorded *r, gpur_device *device, gpur_record_fn record, void *context, int unroll,
                          int64_t repetitions)
{
    *r = (recorded){.repetitions = repetitions};
    GPUR_TRY(gpur_stream_create(device, &r->stream));
    GPUR_TRY(record(context, r->stream));
    GPUR_TRY(gpur_stream_sync(r->stream));
    return gpur_graph_create(device, record, context, unroll, &r->graph);
}

void recorded_close(recorded *r)
{
    gpur_graph_destroy(r->graph);
    gpur_stream_destroy(r->stream);
}

void recorded_run(void *context, int64_t repeats)
{
    const recorded *const r = context;
    for (int64_t i = 0; i < repeats; i++)
        bench_must(gpur_graph_launch(r->graph, r->stream, r->repetitions), "replay");
    bench_must(gpur_stream_sync(r->stream), "sync");
}

device_copy device_copy_open(gpur_device *device, int64_t bytes)
{
    enum { MAX_COPIES = 1024, TOTAL = 256 << 20 };
    device_copy c = {.device = device, .bytes = bytes, .count = TOTAL / bytes};
    c.count = c.count < MAX_COPIES ? c.count : MAX_COPIES;
    bench_must(gpur_device_alloc(device, (c.count + 1) * bytes, (void **)&c.memory), "memory of copies");
    return c;
}

void device_copy_close(device_copy *c)
{
    gpur_device_free(c->device, c->memory);
}

gpur_status device_copy_record(void *context, gpur_stream *stream)
{
    const device_copy *const c = context;
    for (int64_t i = 1; i <= c->count; i++)
        GPUR_TRY(gpur_copy(stream, c->memory, c->memory + i * c->bytes, c->bytes));
    return GPUR_OK;
}

typedef struct counted {
    gpur_train_state state;
    int64_t drawable; /* 1: a step without a row to draw would be skipped */
    float loss, q_taken, invalid, partial;
} counted;

void step_counter_open(step_counter *c, gpur_device *device)
{
    const int64_t one = 1;
    void *memory = NULL;
    bench_must(gpur_device_alloc(device, sizeof(counted), &memory), "a step counter");
    c->device = device;
    c->memory = memory;
    bench_must(gpur_device_copy(device, &c->memory->drawable, &one, sizeof one), "a step counter");
}

void step_counter_close(step_counter *c)
{
    gpur_device_free(c->device, c->memory);
}

const uint64_t *step_counter_value(const step_counter *c)
{
    return &c->memory->state.step;
}

gpur_status count_step(const step_counter *c, gpur_stream *stream)
{
    counted *const m = c->memory;
    const gpur_finish_step_args args = {.state = &m->state,
                                        .drawable = &m->drawable,
                                        .loss = &m->loss,
                                        .q_taken = &m->q_taken,
                                        .invalid = &m->invalid,
                                        .partial = &m->partial,
                                        .batch = 1,
                                        .partials = 1,
                                        .target_period = 1};
    return gpur_launch_finish_step(stream, gpur_grid_single(c->device), &args);
}

void publish_rows(gpur_replay *replay, int64_t batch)
{
    gpur_stream *stream = NULL;
    bench_must(gpur_consumer_begin(replay, (gpur_consumer_launch){GPUR_LAUNCH_SAMPLE, batch, 0}, &stream), "publish");
    bench_must(gpur_consumer_end(replay, GPUR_OK), "publish");
    bench_must(gpur_stream_sync(stream), "publish");
}

/* The rows of bench_melee_replay with priorities. */
static gpur_replay *open_prioritized(gpur_device *device, int64_t capacity)
{
    gpur_replay_config config;
    bench_melee_config(&config, capacity);
    config.prioritized = 1, config.index_source = GPUR_PRIORITIZED_STRATIFIED, config.max_batch = MAX_ROWS;
    gpur_replay *const replay = bench_create(device, &config);
    bench_melee_fill(replay, capacity);
    return replay;
}

int main(int argc, char **argv)
{
    const bench_options options = bench_parse(argc, argv, "the parts of a recorded train step, and the step", NULL, 0);
    gpur_device *const device = bench_open(options.device, 0);
    const int64_t rows = options.quick ? MELEE_CAPACITY / 10 : MELEE_CAPACITY;
    gpur_replay *const replay = bench_melee_replay(device, rows);
    bench_melee_fill(replay, rows);
    gpur_replay *const prioritized = open_prioritized(device, rows);
    bench_report report = bench_begin(&options, "device", bench_describe(device), 0);
    bench_gathers(&report, device, replay, prioritized, rows);
    bench_pixels(&report, device);
    bench_steps(&report, device, replay, prioritized); /* last, in case a step never ends */
    gpur_replay_destroy(prioritized);
    gpur_replay_destroy(replay);
    gpur_device_close(device);
    return bench_end(&report);
}
