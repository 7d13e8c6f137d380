/* SPDX-License-Identifier: MIT */
/* What callers do with a replay of lanes: gpureplay/lanes.h. */
#include "gpureplay/lanes.h"

#include "base/sized.h"
#include "kernels/lib/random.h"
#include "replay/config.h"
#include "replay/replay.h"

#include <inttypes.h>
#include <string.h>

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

/* An array of numbers of `size` bytes, which kernels read or write as such. */
static gpur_status check_numbers(const gpur_replay *replay, const void *array, size_t size, const char *name)
{
    GPUR_TRY(check_array(replay, array, name));
    GPUR_REQUIRE((uintptr_t)array % size == 0,
                 "\"%s\" is at %p; the address of numbers of %zu bytes must be a multiple of %zu", name, array, size,
                 size);
    return GPUR_OK;
}

/* A field: the reward is read and written as a number, others as bytes. */
static gpur_status check_field(const gpur_replay *replay, int32_t field, const void *array)
{
    const char *const name = replay->schema.fields[field].name;
    return check_numbers(replay, array, strcmp(name, "reward") == 0 ? sizeof(float) : 1, name);
}

/* Work that is enqueued on the caller's stream or on the replay's own. */
typedef struct lane_work {
    gpur_replay *replay;
    const void *const *fields;
    const uint8_t *which;
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
    else /* which is waited for */
        GPUR_TRY(gpur_own_stream_check(replay->device));
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

/* A row whose final observation was given has those of all pairs. They are not the observations that the step began
 * with. */
static gpur_status check_finals(const gpur_replay *replay, const void *const *fields)
{
    const char *given = NULL, *missing = NULL;
    for (int32_t i = 0; i < replay->schema.count; i++) {
        const char *const name = replay->schema.fields[i].name;
        if (!gpur_lane_store_is_next(&replay->lanes, i))
            continue;
        *(fields[i] ? &given : &missing) = name;
        GPUR_REQUIRE(fields[i] != fields[replay->lanes.parts[i].of],
                     "\"%s\" and \"%s\" are both %p, so that one has overwritten the other; they must be arrays of "
                     "their own",
                     name, replay->schema.fields[replay->lanes.parts[i].of].name, fields[i]);
    }
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
        const int may_be_missing = is_next || replay->lanes.parts[i].role == GPUR_LANE_TRUNCATION;
        GPUR_REQUIRE(fields[i] || may_be_missing, "\"%s\" is NULL; it must be an array of %" PRId64 " values", name,
                     replay->config.lanes);
        GPUR_REQUIRE(!is_next || !fields[i] || !replay->lanes.lanes.resets_later,
                     "\"%s\" is given, the final observations; with GPUR_AUTORESET_NEXT_STEP they come with the next "
                     "step, and it must be NULL",
                     name);
        if (fields[i])
            GPUR_TRY(check_field(replay, i, fields[i]));
    }
    GPUR_TRY(check_finals(replay, fields));
    const lane_work work = {.replay = replay, .fields = fields};
    return enqueue(&work, add, native);
}

static gpur_status reset(const lane_work *work, gpur_stream *stream)
{
    return gpur_lane_store_reset(&work->replay->lanes, stream, work->which);
}

gpur_status gpur_replay_reset_lanes(gpur_replay *replay, const uint8_t *which, void *native)
{
    GPUR_TRY(check(replay));
    if (which)
        GPUR_TRY(check_array(replay, which, "which"));
    const lane_work work = {.replay = replay, .which = which};
    return enqueue(&work, reset, native);
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

/* An array of a draw. */
typedef struct place {
    const void *at; /* NULL: there is none */
    int64_t bytes;
    const char *name;
} place;

/* Rows are written at the same time, so no array may have a part of another. The ids of a batch may be those of the
 * batch before: each is read before its place is written. */
static gpur_status check_overlap(const place *ids, const place *outputs, int32_t count)
{
    for (int32_t i = 0; i < count; i++)
        for (const place *other = outputs; other <= &outputs[i]; other++) {
            const place *const one = other == &outputs[i] ? ids : &outputs[i];
            const uintptr_t a = (uintptr_t)one->at, b = (uintptr_t)other->at;
            const int is_same_ids = one == ids && a == b && strcmp(other->name, "id") == 0;
            GPUR_REQUIRE(!a || !b || is_same_ids || a + (uintptr_t)one->bytes <= b || b + (uintptr_t)other->bytes <= a,
                         "\"%s\", %p, and \"%s\", %p, have memory in common; they must be arrays of their own",
                         other->name, other->at, one->name, one->at);
        }
    return GPUR_OK;
}

static gpur_status check_places(const gpur_replay *replay, const gpur_lane_draw *d)
{
    const place ids = {d->ids, (d->length > 0 ? d->count / d->length : d->count) * (int64_t)sizeof *d->ids, "ids"};
    const place others[] = {{d->id, sizeof *d->id, "id"},
                            {d->weight, sizeof *d->weight, "weight"},
                            {d->discount, sizeof *d->discount, "discount"},
                            {d->steps, sizeof *d->steps, "steps"},
                            {d->mask, sizeof *d->mask, "mask"},
                            {d->is_first, sizeof *d->is_first, "is_first"}};
    const int32_t other_count = sizeof others / sizeof *others;
    place outputs[GPUR_MAX_FIELDS + sizeof others / sizeof *others];
    int32_t count = 0;
    for (int32_t i = 0; i < replay->schema.count && d->fields; i++) {
        const gpur_field_info *const field = &replay->schema.fields[i];
        if (!d->fields[i])
            continue;
        GPUR_TRY(check_field(replay, i, d->fields[i]));
        outputs[count++] = (place){d->fields[i], d->count * field->bytes, field->name};
    }
    for (int32_t i = 0; i < other_count; i++) {
        if (!others[i].at)
            continue;
        GPUR_TRY(check_numbers(replay, others[i].at, (size_t)others[i].bytes, others[i].name));
        outputs[count++] = (place){others[i].at, d->count * others[i].bytes, others[i].name};
    }
    if (d->ids)
        GPUR_TRY(check_numbers(replay, d->ids, sizeof *d->ids, "ids"));
    return check_overlap(&ids, outputs, count);
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
    return check_places(replay, d);
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
    GPUR_TRY(check_numbers(replay, ids, sizeof *ids, "ids"));
    GPUR_TRY(check_numbers(replay, priorities, sizeof *priorities, "priorities"));
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
                                   .lost_finals = state.lost_finals,
                                   .broken_stacks = state.broken_stacks};
    return gpur_sized_write(given, &stats, sizeof stats, "gpur_lane_stats");
}
