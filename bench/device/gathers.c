/* SPDX-License-Identifier: MIT */
/* Sample and gather as a train step records them, uniformly and by priority with importance weights, each beside a copy
 * of as many bytes within the device; and updates of priorities. */
#include "bench/device/parts.h"

#include "kernels/lib/random.h"
#include "replay/sampler/sampler.h"
#include "replay/view.h"

#include <stdlib.h>

enum { GATHERS = 32, PITCH = (MELEE_OBS + 3) / 4 * 4 };

/* Where the rows go, as a learner has it: observations padded to whole 16-byte moves. */
typedef struct destination {
    float obs[MAX_ROWS * PITCH], next_obs[MAX_ROWS * PITCH];
    float reward[MAX_ROWS], weight[MAX_ROWS], discount[MAX_ROWS];
    int32_t action[MAX_ROWS];
    int64_t id[MAX_ROWS];
    uint32_t leaf[MAX_ROWS];
} destination;

/* All gathers have seeds of their own and one step counter, which is one node in 33. */
typedef struct gather_context {
    gpur_replay *replay;
    int64_t capacity;
    destination *to; /* on the device */
    step_counter counter;
    gpur_gather_args args[GATHERS];
    gpur_grid grid;
    int by_priority; /* then also, of all gathers: */
    gpur_priority_sample_args draw;
    gpur_priority_weights_args weigh;
} gather_context;

static gpur_status gather_by_priority(const gather_context *c, gpur_stream *stream, int i)
{
    gpur_priority_gather_args args = {.gather = c->args[i], .sample = c->draw, .weights = c->weigh};
    args.sample.seed = c->args[i].seed;
    return gpur_sampler_launch_by_priority(c->replay, stream, &args);
}

static gpur_status record_gathers(void *context, gpur_stream *stream)
{
    const gather_context *const c = context;
    for (int i = 0; i < GATHERS; i++)
        GPUR_TRY(c->by_priority ? gather_by_priority(c, stream, i) : gpur_launch_gather(stream, c->grid, &c->args[i]));
    return count_step(&c->counter, stream);
}

static int32_t field_of(gpur_replay *replay, const char *name)
{
    return gpur_schema_find(gpur_replay_schema(replay), name);
}

static void prepare_gathers(gather_context *c, int64_t rows)
{
    destination *const to = c->to;
    const gpur_gather_field fields[] = {
        {field_of(c->replay, "obs"), to->obs, PITCH * (int64_t)sizeof(float)},
        {field_of(c->replay, "next_obs"), to->next_obs, PITCH * (int64_t)sizeof(float)},
        {field_of(c->replay, "action"), to->action, sizeof(int32_t)},
        {field_of(c->replay, "reward"), to->reward, sizeof(float)},
    };
    gpur_gather_request request = {.fields = fields,
                                   .field_count = 4,
                                   .source = c->by_priority ? GPUR_GATHER_IDS : GPUR_GATHER_UNIFORM,
                                   .rows = rows,
                                   .ids = to->id,
                                   .id = to->id,
                                   .weight = to->weight,
                                   .discount = to->discount,
                                   .step = step_counter_value(&c->counter)};
    for (int i = 0; i < GATHERS; i++) {
        request.seed = (uint64_t)i + 1;
        bench_must(gpur_gather_prepare(c->replay, &request, &c->args[i]), "gather");
    }
    c->grid = gpur_gather_grid(c->replay, &c->args[0]);
}

/* Weights as of [Schaul et al. 2016], beta 0.4. */
static void prepare_draws(gather_context *c, int64_t rows)
{
    const gpur_priorities *const priorities = gpur_replay_priorities(c->replay);
    c->draw = gpur_priorities_sample_args(priorities, 1, rows, c->to->id, c->to->leaf);
    c->draw.purpose = GPUR_RANDOM_PRIORITY;
    c->draw.step = step_counter_value(&c->counter);
    c->weigh = gpur_priorities_weight_args(priorities, rows, c->to->id, c->to->leaf, c->to->weight);
    c->weigh.beta_first = c->weigh.beta_last = 0.4f;
}

static void run_gather(bench_report *report, gpur_device *device, gather_context *c, int64_t rows)
{
    char name[80];
    recorded gathers, copies;
    snprintf(name, sizeof name, "draw + gather %lld rows of %lld%s", (long long)rows, (long long)c->capacity,
             c->by_priority ? " by priority" : "");
    if (!bench_wants(report, name))
        return;
    device_copy copy = device_copy_open(device, rows * (int64_t)sizeof(melee_row));
    prepare_gathers(c, rows);
    if (c->by_priority)
        prepare_draws(c, rows);
    bench_must(recorded_open(&gathers, device, record_gathers, c, 1, 1), name);
    bench_must(recorded_open(&copies, device, device_copy_record, &copy, 1, 1), name);
    bench_case one =
        bench_versus(name, "gather", GATHERS, recorded_run, "copy within the device", recorded_run, &gathers);
    one.variants[1].context = &copies, one.variants[1].items = (double)copy.count;
    bench_run(report, &one);
    recorded_close(&copies);
    recorded_close(&gathers);
    device_copy_close(&copy);
}

static const int64_t batches[] = {32, 1024, 4096, 64, 128, 256, 512, 2048};
enum { BATCHES = sizeof batches / sizeof *batches, QUICK_BATCHES = 3 };

static void run_gathers(bench_report *report, gpur_device *device, gather_context *c)
{
    const int count = report->options->quick ? QUICK_BATCHES : BATCHES;
    publish_rows(c->replay, MAX_ROWS);
    for (int i = 0; i < count; i++)
        run_gather(report, device, c, batches[i]);
}

/* Updates of different rows each, with random ids and priorities that lie on the device. */
typedef struct update_context {
    gpur_device *device;
    const gpur_priorities *priorities;
    int64_t capacity, batch;
    int64_t *ids;  /* (GATHERS, MAX_ROWS) */
    float *values; /* (GATHERS, MAX_ROWS) */
} update_context;

static gpur_status record_updates(void *context, gpur_stream *stream)
{
    const update_context *const c = context;
    for (int64_t i = 0; i < GATHERS; i++)
        GPUR_TRY(gpur_priorities_update(c->priorities, stream, c->batch, c->ids + i * MAX_ROWS,
                                        c->values + i * MAX_ROWS, 0));
    return GPUR_OK;
}

static void fill_updates(update_context *c)
{
    enum { COUNT = GATHERS * MAX_ROWS };
    int64_t *const ids = bench_allocate(COUNT * sizeof *ids);
    float *const values = bench_allocate(COUNT * sizeof *values);
    uint64_t state = 7;
    for (int i = 0; i < COUNT; i++) {
        ids[i] = bench_random_below(&state, c->capacity);
        values[i] = bench_random_unit(&state) + 1e-3f;
    }
    bench_must(gpur_device_alloc(c->device, COUNT * (int64_t)sizeof *ids, (void **)&c->ids), "ids");
    bench_must(gpur_device_alloc(c->device, COUNT * (int64_t)sizeof *values, (void **)&c->values), "priorities");
    bench_must(gpur_device_copy(c->device, c->ids, ids, COUNT * (int64_t)sizeof *ids), "ids");
    bench_must(gpur_device_copy(c->device, c->values, values, COUNT * (int64_t)sizeof *values), "priorities");
    free(values);
    free(ids);
}

static void run_updates(bench_report *report, update_context *c)
{
    const int count = report->options->quick ? QUICK_BATCHES : BATCHES;
    for (int i = 0; i < count; i++) {
        char name[64];
        recorded updates;
        c->batch = batches[i];
        snprintf(name, sizeof name, "update %lld priorities of %lld", (long long)c->batch, (long long)c->capacity);
        if (!bench_wants(report, name))
            continue;
        bench_must(recorded_open(&updates, c->device, record_updates, c, 1, 1), name);
        const bench_case one = bench_alone(name, "update", GATHERS, "update", recorded_run, &updates);
        bench_run(report, &one);
        recorded_close(&updates);
    }
}

void bench_gathers(bench_report *report, gpur_device *device, gpur_replay *replay, gpur_replay *prioritized,
                   int64_t rows)
{
    static gather_context c;
    update_context updates = {.device = device, .capacity = rows};
    bench_must(gpur_device_alloc(device, sizeof(destination), (void **)&c.to), "memory");
    step_counter_open(&c.counter, device);
    c.replay = replay, c.capacity = rows;
    run_gathers(report, device, &c);
    c.replay = prioritized, c.by_priority = 1;
    publish_rows(c.replay, MAX_ROWS);
    updates.priorities = gpur_replay_priorities(c.replay);
    fill_updates(&updates);
    run_updates(report, &updates); /* leaves random priorities for the samples */
    run_gathers(report, device, &c);
    gpur_device_free(device, updates.values);
    gpur_device_free(device, updates.ids);
    step_counter_close(&c.counter);
    gpur_device_free(device, c.to);
}
