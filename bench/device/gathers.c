/* SPDX-License-Identifier: MIT */
/* Draw and gather inside a recording: what the device takes, without the host. */
#include "bench/device/parts.h"
#include "bench/device/recorded.h"
#include "bench/setup.h"
#include "replay/consumer.h"
#include "replay/draw.h"

enum { GATHERS = 32, MOST = 4096, PITCH = (MELEE_OBS + 3) / 4 * 4 };

/* Where the rows go: as a learner has them, observations padded to whole 16-byte moves. */
typedef struct sink {
    float obs[MOST * PITCH], next_obs[MOST * PITCH];
    float reward[MOST], weight[MOST], discount[MOST];
    int32_t action[MOST];
    int64_t id[MOST];
    gpur_train_state state;
    float loss, q_taken, invalid, partial; /* of finish_step */
} sink;

/* The gathers have seeds of their own and one step counter, which finish_step moves on behind the last: no replay reads
 * the rows of another, and what is not gather is one node in 33. */
typedef struct gather_context {
    gpur_gather_args args[GATHERS];
    gpur_grid grid, single;
    gpur_finish_step_args finish;
} gather_context;

static gpur_status record(void *context, gpur_stream *stream)
{
    const gather_context *const c = context;
    for (int i = 0; i < GATHERS; i++)
        GPUR_TRY(gpur_launch_gather(stream, c->grid, &c->args[i]));
    return gpur_launch_finish_step(stream, c->single, &c->finish);
}

static int32_t field_of(gpur_replay *replay, const char *name)
{
    return gpur_schema_find(gpur_replay_schema(replay), name);
}

static void prepare(gather_context *c, gpur_replay *replay, sink *to, int64_t rows)
{
    const gpur_draw_field fields[] = {
        {field_of(replay, "obs"), to->obs, PITCH * (int64_t)sizeof(float)},
        {field_of(replay, "next_obs"), to->next_obs, PITCH * (int64_t)sizeof(float)},
        {field_of(replay, "action"), to->action, sizeof(int32_t)},
        {field_of(replay, "reward"), to->reward, sizeof(float)},
    };
    gpur_draw_request request = {.fields = fields,
                                 .field_count = 4,
                                 .source = GPUR_SOURCE_UNIFORM,
                                 .rows = rows,
                                 .id = to->id,
                                 .weight = to->weight,
                                 .discount = to->discount,
                                 .step = &to->state.step};
    for (int i = 0; i < GATHERS; i++) {
        request.seed = (uint64_t)i + 1;
        bench_must(gpur_draw_prepare(replay, &request, &c->args[i]), "gather");
    }
    const gpur_finish_step_args finish = {.state = &to->state,
                                          .window = c->args[0].window,
                                          .loss = &to->loss,
                                          .q_taken = &to->q_taken,
                                          .invalid = &to->invalid,
                                          .partial = &to->partial,
                                          .batch = 1,
                                          .partials = 1,
                                          .target_period = 1};
    c->finish = finish;
    c->grid = gpur_draw_grid(replay, rows);
    c->single = gpur_grid_single(gpur_replay_device(replay));
}

/* A turn in which nothing is launched publishes what was appended, so that the window is there. */
static void publish(gpur_replay *replay)
{
    gpur_stream *stream = NULL;
    bench_must(gpur_consumer_begin(replay, MOST, &stream), "publish");
    bench_must(gpur_consumer_end(replay), "publish");
    bench_must(gpur_stream_sync(stream), "publish");
}

void bench_gathers(bench_report *report, gpur_device *device, gpur_replay *replay)
{
    static const int64_t batches[] = {32, 1024, 4096, 64, 128, 256, 512, 2048};
    const int count = report->options->quick ? 3 : 8;
    static gather_context c;
    void *to = NULL;
    bench_must(gpur_device_alloc(device, sizeof(sink), &to), "memory");
    publish(replay);
    for (int i = 0; i < count; i++) {
        char name[64];
        recorded r;
        snprintf(name, sizeof name, "draw + gather %lld rows of 1,000,000, recorded", (long long)batches[i]);
        prepare(&c, replay, to, batches[i]);
        recorded_open(&r, device, record, &c, 1, 1);
        const bench_figure figure = {.name = name,
                                     .items = GATHERS,
                                     .item = "gather",
                                     .work = (double)batches[i] * 2 * sizeof(melee_row),
                                     .unit = "B",
                                     .body = recorded_run,
                                     .context = &r};
        bench_measure(report, &figure);
        recorded_close(&r);
    }
    gpur_device_free(device, to);
}
