/* SPDX-License-Identifier: MIT */
/* What callers do with a replay of lanes: gpureplay/lanes.h. */
#include "gpureplay/lanes.h"

#include "base/sized.h"
#include "kernels/lib/random.h"
#include "replay/config.h"
#include "replay/replay.h"

#include <inttypes.h>

static const gpur_lane_draw defaults = {.size = sizeof(gpur_lane_draw), .gamma = -1.0f, .across_episodes = 1};

gpur_status gpur_lane_draw_init(gpur_lane_draw *draw, uint64_t size)
{
    return gpur_sized_init(draw, size, &defaults, sizeof defaults, "gpur_lane_draw");
}

static gpur_status check(const gpur_replay *replay)
{
    GPUR_REQUIRE(replay, "replay is NULL");
    GPUR_REQUIRE(replay->lanes.device,
                 "the replay's layout is %d; it must be GPUR_LAYOUT_LANES (2), and gpur_replay_config.lanes the number "
                 "of environments",
                 (int)replay->config.layout);
    return GPUR_OK;
}

/* An array that kernels read or write. */
static gpur_status check_array(const gpur_replay *replay, const void *array, const char *name)
{
    int on_device = 0;
    GPUR_TRY(gpur_memory_locate(replay->device, array, &on_device));
    GPUR_REQUIRE(on_device, "\"%s\" is %p, which is host memory; lanes take and give arrays of %s", name, array,
                 gpur_device_name(replay->device));
    return GPUR_OK;
}

/* Work that is enqueued on the caller's stream or on the replay's own. */
typedef struct lane_work {
    gpur_replay *replay;
    const void *const *fields;
    gpur_lane_batch batch;
    int64_t count;
    const int64_t *ids;
    const float *priorities;
} lane_work;

typedef gpur_status (*enqueue_fn)(const lane_work *work, gpur_stream *stream);

/* One call at a time enqueues; its kernels lie in the stream behind each other. */
static gpur_status enqueue(const lane_work *work, enqueue_fn fn, void *native)
{
    gpur_replay *const replay = work->replay;
    gpur_stream *stream = replay->consumer.stream;
    if (native)
        GPUR_TRY(gpur_stream_borrow(replay->device, native, &stream));
    gpur_consumer_lock(replay);
    gpur_status status = fn(work, stream);
    gpur_consumer_unlock(replay);
    if (native)
        gpur_stream_give_back(stream);
    else if (status == GPUR_OK)
        status = gpur_stream_sync(stream);
    return status;
}

static gpur_status add(const lane_work *work, gpur_stream *stream)
{
    return gpur_lane_store_add(&work->replay->lanes, stream, work->fields);
}

/* A row whose final observation was given has those of all pairs. */
static gpur_status check_finals(const gpur_replay *replay, const void *const *fields)
{
    const char *given = NULL, *missing = NULL;
    for (int32_t i = 0; i < replay->schema.count; i++)
        if (gpur_lane_store_is_next(&replay->lanes, i))
            *(fields[i] ? &given : &missing) = replay->schema.fields[i].name;
    GPUR_REQUIRE(!given || !missing,
                 "\"%s\" is NULL and \"%s\" is given; the final observations of all pairs must be given, or of none",
                 missing, given);
    return GPUR_OK;
}

gpur_status gpur_replay_add_lanes(gpur_replay *replay, const void *const *fields, void *native)
{
    GPUR_TRY(check(replay));
    GPUR_REQUIRE(fields, "fields is NULL; it must be the arrays of %d fields", (int)replay->schema.count);
    for (int32_t i = 0; i < replay->schema.count; i++) {
        const char *const name = replay->schema.fields[i].name;
        const int is_next = gpur_lane_store_is_next(&replay->lanes, i);
        GPUR_REQUIRE(fields[i] || is_next, "\"%s\" is NULL; it must be an array of %" PRId64 " values", name,
                     replay->config.lanes);
        GPUR_REQUIRE(!is_next || !fields[i] || !replay->lanes.lanes.resets_later,
                     "\"%s\" is given, the final observations; with GPUR_AUTORESET_NEXT_STEP they come with the next "
                     "step, and it must be NULL",
                     name);
        if (fields[i])
            GPUR_TRY(check_array(replay, fields[i], name));
    }
    GPUR_TRY(check_finals(replay, fields));
    const lane_work work = {.replay = replay, .fields = fields};
    return enqueue(&work, add, native);
}

static gpur_status draw(const lane_work *work, gpur_stream *stream)
{
    return gpur_lane_store_draw(&work->replay->lanes, stream, &work->batch);
}

/* Sets min_length. */
static gpur_status check_sequences(gpur_lane_draw *d)
{
    GPUR_TRY(gpur_range_check(d->length, 0, d->count, "gpur_lane_draw.length"));
    GPUR_TRY(gpur_choice_check(d->across_episodes, 1, "gpur_lane_draw.across_episodes", "0 or 1"));
    GPUR_REQUIRE(
        d->length > 0 || (!d->mask && !d->is_first),
        "gpur_lane_draw.%s is given and length is 0; it must be 1 or more, rows of a sequence, or the array NULL",
        d->mask ? "mask" : "is_first");
    if (d->length == 0)
        return GPUR_OK;
    GPUR_REQUIRE(d->count % d->length == 0,
                 "gpur_lane_draw.count is %" PRId64 " and length %" PRId64 "; count must be a multiple of length",
                 d->count, d->length);
    GPUR_REQUIRE(!d->of_each_lane, "gpur_lane_draw.of_each_lane is 1 and length %" PRId64 "; one of them must be 0",
                 d->length);
    GPUR_TRY(gpur_range_check(d->min_length, 0, d->length, "gpur_lane_draw.min_length"));
    d->min_length = d->min_length > 0 ? d->min_length : d->length;
    return GPUR_OK;
}

static gpur_status check_draw(const gpur_replay *replay, gpur_lane_draw *d)
{
    const gpur_replay_config *const c = &replay->config;
    GPUR_TRY(gpur_range_check(d->count, 1, c->max_batch, "gpur_lane_draw.count"));
    GPUR_TRY(gpur_range_check(d->n_step, 0, GPUR_MAX_N_STEP, "gpur_lane_draw.n_step"));
    GPUR_REQUIRE(d->gamma <= 1.0f, "gpur_lane_draw.gamma is %g; it must be 0 to 1, or below 0 for the replay's, %g",
                 (double)d->gamma, (double)c->gamma);
    d->n_step = d->n_step > 0 ? d->n_step : c->n_step;
    d->gamma = d->gamma >= 0.0f ? d->gamma : c->gamma;
    GPUR_TRY(gpur_choice_check(d->of_each_lane, 1, "gpur_lane_draw.of_each_lane", "0 or 1"));
    GPUR_REQUIRE(
        !d->of_each_lane || c->index_source == GPUR_UNIFORM,
        "gpur_lane_draw.of_each_lane is 1 and gpur_replay_config.index_source is %d; it must be GPUR_UNIFORM (1)",
        (int)c->index_source);
    GPUR_REQUIRE(!d->of_each_lane || d->count % c->lanes == 0,
                 "gpur_lane_draw.of_each_lane is 1 and count is %" PRId64 "; it must be a multiple of lanes = %" PRId64,
                 d->count, c->lanes);
    GPUR_TRY(check_sequences(d));
    const void *const others[] = {d->ids, d->id, d->weight, d->discount, d->steps, d->mask, d->is_first};
    static const char *const names[] = {"ids", "id", "weight", "discount", "steps", "mask", "is_first"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (others[i])
            GPUR_TRY(check_array(replay, others[i], names[i]));
    for (int32_t i = 0; i < replay->schema.count && d->fields; i++)
        if (d->fields[i])
            GPUR_TRY(check_array(replay, d->fields[i], replay->schema.fields[i].name));
    return GPUR_OK;
}

gpur_status gpur_replay_draw_lanes(gpur_replay *replay, const gpur_lane_draw *given, void *native)
{
    gpur_lane_draw d = defaults;
    GPUR_TRY(check(replay));
    GPUR_TRY(gpur_sized_read(&d, sizeof d, given, "gpur_lane_draw"));
    GPUR_TRY(check_draw(replay, &d));
    const lane_work work = {.replay = replay,
                            .batch = {.count = d.count,
                                      .ids = d.ids,
                                      .index_source = replay->config.index_source,
                                      .of_each_lane = d.of_each_lane,
                                      .length = d.length,
                                      .min_length = d.min_length,
                                      .across_episodes = d.across_episodes,
                                      .mask = d.mask,
                                      .is_first = d.is_first,
                                      .fields = d.fields,
                                      .id = d.id,
                                      .weight = d.weight,
                                      .discount = d.discount,
                                      .steps = d.steps,
                                      .n_step = d.n_step,
                                      .gamma = d.gamma,
                                      .seed = replay->config.seed,
                                      .purpose = GPUR_RANDOM_LANES,
                                      .beta = replay->config.beta}};
    return enqueue(&work, draw, native);
}

static gpur_status update(const lane_work *work, gpur_stream *stream)
{
    return gpur_priorities_update(&work->replay->priorities, stream, work->count, work->ids, work->priorities, 0);
}

gpur_status gpur_replay_update_lanes(gpur_replay *replay, int64_t count, const int64_t *ids, const float *priorities,
                                     void *native)
{
    GPUR_TRY(check(replay));
    GPUR_REQUIRE(replay->config.prioritized,
                 "the replay has no priorities; gpur_replay_config.prioritized is 0, and must be 1");
    GPUR_TRY(gpur_range_check(count, 1, replay->config.max_batch, "count"));
    GPUR_REQUIRE(ids && priorities, "%s is NULL; it must be %" PRId64 " numbers", ids ? "priorities" : "ids", count);
    GPUR_TRY(check_array(replay, ids, "ids"));
    GPUR_TRY(check_array(replay, priorities, "priorities"));
    const lane_work work = {.replay = replay, .count = count, .ids = ids, .priorities = priorities};
    return enqueue(&work, update, native);
}

gpur_status gpur_replay_get_lane_stats(gpur_replay *replay, gpur_lane_stats *given, void *native)
{
    gpur_lanes_state state;
    gpur_stream *stream = NULL;
    GPUR_TRY(check(replay));
    GPUR_TRY(gpur_native_stream_check(replay->device, native, 0));
    if (native)
        GPUR_TRY(gpur_stream_wait_native(replay->consumer.stream, native));
    GPUR_TRY(gpur_consumer_begin(replay, gpur_consumer_without_publishing, &stream));
    GPUR_TRY(gpur_consumer_end(replay, gpur_lane_store_read(&replay->lanes, stream, &state)));
    const gpur_lane_stats stats = {.size = sizeof stats,
                                   .steps = state.steps,
                                   .transitions = state.whole,
                                   .draws = state.draws,
                                   .finals = state.finals,
                                   .without_final = state.without_final,
                                   .lost_finals = state.lost_finals};
    return gpur_sized_write(given, &stats, sizeof stats, "gpur_lane_stats");
}
