/* SPDX-License-Identifier: MIT */
/* Draw and gather inside a recording, as a train step has them: what the device takes, without the host. Uniformly, and
 * by priority with importance weights. */
#include "bench/device/counter.h"
#include "bench/device/parts.h"
#include "bench/device/recorded.h"
#include "bench/setup.h"
#include "kernels/lib/random.h"
#include "replay/sampler/consumer.h"
#include "replay/sampler/gather.h"

enum { GATHERS = 32, MOST = 4096, PITCH = (MELEE_OBS + 3) / 4 * 4 };

/* Where the rows go: as a learner has them, observations padded to whole 16-byte moves. */
typedef struct sink {
    float obs[MOST * PITCH], next_obs[MOST * PITCH];
    float reward[MOST], weight[MOST], discount[MOST];
    int32_t action[MOST];
    int64_t id[MOST];
    uint32_t leaf[MOST];
} sink;

/* The gathers have seeds of their own and one step counter, so that what is not gather is one node in 33. */
typedef struct gather_context {
    gpur_replay *replay;
    sink *to;
    step_counter counter;
    gpur_gather_args args[GATHERS];
    gpur_grid grid;
    int by_priority; /* and then, in front of a gather and behind it: */
    gpur_priority_draw_args draw;
    gpur_grid draw_grid;
    gpur_priority_weights_args weigh;
} gather_context;

static gpur_status gather_by_priority(const gather_context *c, gpur_stream *stream, int i)
{
    const gpur_grid rows = gpur_grid_elements(gpur_replay_device(c->replay), c->weigh.batch);
    gpur_priority_draw_args draw = c->draw;
    draw.seed = c->args[i].seed;
    GPUR_TRY(gpur_launch_priority_draw(stream, c->draw_grid, &draw));
    GPUR_TRY(gpur_launch_gather(stream, c->grid, &c->args[i]));
    return gpur_launch_priority_weights(stream, rows, &c->weigh);
}

static gpur_status record(void *context, gpur_stream *stream)
{
    const gather_context *const c = context;
    for (int i = 0; i < GATHERS; i++)
        GPUR_TRY(c->by_priority ? gather_by_priority(c, stream, i) : gpur_launch_gather(stream, c->grid, &c->args[i]));
    return counter_move(&c->counter, stream);
}

static int32_t field_of(gpur_replay *replay, const char *name)
{
    return gpur_schema_find(gpur_replay_schema(replay), name);
}

static void prepare_gathers(gather_context *c, int64_t rows)
{
    sink *const to = c->to;
    const gpur_draw_field fields[] = {
        {field_of(c->replay, "obs"), to->obs, PITCH * (int64_t)sizeof(float)},
        {field_of(c->replay, "next_obs"), to->next_obs, PITCH * (int64_t)sizeof(float)},
        {field_of(c->replay, "action"), to->action, sizeof(int32_t)},
        {field_of(c->replay, "reward"), to->reward, sizeof(float)},
    };
    gpur_draw_request request = {.fields = fields,
                                 .field_count = 4,
                                 .source = c->by_priority ? GPUR_SOURCE_IDS : GPUR_SOURCE_UNIFORM,
                                 .rows = rows,
                                 .ids = to->id,
                                 .id = to->id,
                                 .weight = to->weight,
                                 .discount = to->discount,
                                 .step = counter_step(&c->counter)};
    for (int i = 0; i < GATHERS; i++) {
        request.seed = (uint64_t)i + 1;
        bench_must(gpur_draw_prepare(c->replay, &request, &c->args[i]), "gather");
    }
    c->grid = gpur_draw_grid(c->replay, rows);
}

/* Weights as of [Schaul et al. 2016], beta 0.4. */
static void prepare_draws(gather_context *c, int64_t rows)
{
    const gpur_priorities *const priorities = gpur_replay_priorities(c->replay);
    c->draw = gpur_priorities_draw(priorities, GPUR_PRIORITIZED, rows, c->to->id, c->to->leaf);
    c->draw.purpose = GPUR_DRAW_PRIORITY;
    c->draw.step = counter_step(&c->counter);
    c->draw_grid = gpur_priorities_draw_grid(priorities, rows);
    c->weigh = gpur_priorities_weights(priorities, rows, c->to->id, c->to->leaf, c->to->weight);
    c->weigh.beta_first = c->weigh.beta_last = 0.4f;
}

static void measure(bench_report *report, gpur_device *device, gather_context *c, int64_t rows)
{
    char name[64];
    const recorded_work work = {record, c, 1, 1};
    prepare_gathers(c, rows);
    if (c->by_priority)
        prepare_draws(c, rows);
    snprintf(name, sizeof name, "draw + gather %lld rows of 1,000,000%s, recorded", (long long)rows,
             c->by_priority ? " by priority" : "");
    const bench_figure figure = {
        .name = name, .items = GATHERS, .item = "gather", .work = (double)rows * 2 * sizeof(melee_row), .unit = "B"};
    recorded_measure(report, device, figure, &work);
}

/* A turn in which nothing is launched publishes what was appended, so that the window is there. */
static void publish(gpur_replay *replay)
{
    gpur_stream *stream = NULL;
    bench_must(gpur_consumer_begin(replay, MOST, &stream), "publish");
    bench_must(gpur_consumer_end(replay), "publish");
    bench_must(gpur_stream_sync(stream), "publish");
}

static void measure_all(bench_report *report, gpur_device *device, gather_context *c)
{
    static const int64_t batches[] = {32, 1024, 4096, 64, 128, 256, 512, 2048};
    const int count = report->options->quick ? 3 : 8;
    publish(c->replay);
    for (int i = 0; i < count; i++)
        measure(report, device, c, batches[i]);
}

/* The same rows, with random priorities for an eighth of them. */
static gpur_replay *ranked_replay(gpur_device *device)
{
    static int64_t ids[MOST];
    static float priorities[MOST];
    uint64_t state = 7;
    gpur_replay_config config;
    gpur_replay *replay = NULL;
    bench_melee_config(&config, MELEE_CAPACITY);
    config.prioritized = 1, config.index_source = GPUR_PRIORITIZED, config.max_batch = MOST;
    bench_must(gpur_replay_create(device, &config, &replay), "replay");
    bench_fill(replay, MELEE_CAPACITY);
    for (int turn = 0; turn < 32; turn++) {
        for (int i = 0; i < MOST; i++, state = state * 6364136223846793005ull + 1442695040888963407ull)
            ids[i] = (int64_t)((state >> 32) % MELEE_CAPACITY), priorities[i] = (float)(state >> 44) * 0x1p-20f;
        bench_must(gpur_replay_update_priorities(replay, MOST, ids, priorities, NULL), "priorities");
    }
    return replay;
}

void bench_gathers(bench_report *report, gpur_device *device, gpur_replay *replay)
{
    static gather_context c;
    void *to = NULL;
    bench_must(gpur_device_alloc(device, sizeof(sink), &to), "memory");
    counter_open(&c.counter, device);
    c.to = to, c.replay = replay;
    measure_all(report, device, &c);
    c.replay = ranked_replay(device), c.by_priority = 1;
    measure_all(report, device, &c);
    gpur_replay_destroy(c.replay);
    counter_close(&c.counter);
    gpur_device_free(device, to);
}
