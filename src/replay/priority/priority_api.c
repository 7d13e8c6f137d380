/* SPDX-License-Identifier: MIT */
/* The public functions of gpureplay/priority.h. */
#include "gpureplay/priority.h"
#include "base/sized.h"
#include "kernels/lib/schedule.h"
#include "replay/caller_arrays.h"
#include "replay/config.h"
#include "replay/replay.h"
#include "replay/view.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

static gpur_status check(const gpur_replay *replay)
{
    GPUR_REQUIRE(replay, "replay is NULL");
    GPUR_REQUIRE(replay->config.prioritized,
                 "the replay has no priorities; gpur_replay_config.prioritized is 0, and must be 1");
    return GPUR_OK;
}

static gpur_status check_count(const gpur_replay *replay, int64_t count, int64_t min_count)
{
    GPUR_REQUIRE(count >= min_count && count <= replay->config.max_batch,
                 "count is %" PRId64 "; it must be %" PRId64 " to max_batch = %" PRId64, count, min_count,
                 replay->config.max_batch);
    return GPUR_OK;
}

/* Double-buffered pinned staging: launch n uses row n % 2. gpur_consumer_begin has waited for launch n - 2, its
 * previous user. */
static int64_t *pinned_ids(const gpur_replay *replay)
{
    return replay->consumer.ids + replay->consumer.launches % 2 * replay->config.max_batch;
}

static float *pinned_values(gpur_replay *replay)
{
    return replay->priorities.host_values + replay->consumer.launches % 2 * replay->config.max_batch;
}

static gpur_status upload_ids(gpur_replay *replay, gpur_stream *stream, int64_t count, const int64_t *ids)
{
    const int64_t bytes = count * (int64_t)sizeof *ids;
    memcpy(pinned_ids(replay), ids, (size_t)bytes);
    return gpur_copy(stream, replay->priorities.ids, pinned_ids(replay), bytes);
}

static gpur_status upload_values(gpur_replay *replay, gpur_stream *stream, int64_t count, const float *values)
{
    const int64_t bytes = count * (int64_t)sizeof *values;
    memcpy(pinned_values(replay), values, (size_t)bytes);
    return gpur_copy(stream, replay->priorities.values, pinned_values(replay), bytes);
}

/* An update of priorities: its arrays, and the memory they are in. */
typedef struct update_request {
    int64_t count;
    const int64_t *ids;
    const float *priorities;
    void *native; /* the caller's stream, for arrays on the device */
    int on_device;
} update_request;

/* It has no branches, so loops over it vectorize. */
static int is_priority(float p)
{
    return (p >= 0.0f) & (p < INFINITY);
}

/* Device memory cannot be looked at without waiting: there the kernel skips what is no priority. The first loop does
 * not end early, so that it vectorizes. */
static gpur_status check_values(int64_t count, const float *priorities)
{
    int good = 1;
    for (int64_t i = 0; i < count; i++)
        good &= is_priority(priorities[i]);
    for (int64_t i = 0; i < count && !good; i++)
        GPUR_REQUIRE(is_priority(priorities[i]),
                     "priorities[%" PRId64 "] is %g; it must be 0 or more and finite, such as the absolute value of a "
                     "TD error",
                     i, (double)priorities[i]);
    return GPUR_OK;
}

/* Work on the priorities, to be enqueued under the window lock, so that the window does not change between its kernel
 * launches. */
typedef struct priority_work {
    gpur_replay *replay;
    gpur_stream *stream;
    int64_t count;
    const int64_t *ids;
    const float *values;
    float alpha;
} priority_work;

static gpur_status update_locked(void *context)
{
    const priority_work *const w = context;
    return gpur_priorities_update(&w->replay->priorities, w->stream, w->count, w->ids, w->values, 0);
}

static gpur_status launch(gpur_replay *replay, gpur_stream *stream, int64_t count, const int64_t *ids,
                          const float *values)
{
    priority_work work = {.replay = replay, .stream = stream, .count = count, .ids = ids, .values = values};
    return gpur_with_window_locked(replay, update_locked, &work);
}

/* Work that is executed before the call returns reads the caller's arrays in place. */
static gpur_status update_from_host(gpur_replay *replay, gpur_stream *stream, const update_request *r)
{
    const gpur_priorities *const priorities = &replay->priorities;
    if (gpur_device_get_traits(replay->device)->is_synchronous)
        return launch(replay, stream, r->count, r->ids, r->priorities);
    GPUR_TRY(upload_ids(replay, stream, r->count, r->ids));
    GPUR_TRY(upload_values(replay, stream, r->count, r->priorities));
    return launch(replay, stream, r->count, priorities->ids, priorities->values);
}

static gpur_status update_from_device(gpur_replay *replay, gpur_stream *stream, const update_request *r)
{
    if (r->native)
        GPUR_TRY(gpur_stream_wait_native(stream, r->native));
    GPUR_TRY(launch(replay, stream, r->count, r->ids, r->priorities));
    return r->native ? gpur_native_wait_stream(r->native, stream) : gpur_stream_sync(stream);
}

gpur_status gpur_replay_update_priorities(gpur_replay *replay, int64_t count, const int64_t *ids,
                                          const float *priorities, void *native)
{
    update_request request = {count, ids, priorities, native, 0};
    gpur_stream *stream = NULL;
    GPUR_TRY(check(replay));
    GPUR_TRY(gpur_replay_refuse_lanes(replay, "gpur_replay_update_priorities, in place of gpur_replay_update_lanes"));
    GPUR_TRY(check_count(replay, count, 0));
    GPUR_REQUIRE((ids && priorities) || count == 0, "%s is NULL; it must be %" PRId64 " numbers",
                 ids ? "priorities" : "ids", count);
    GPUR_TRY(gpur_native_stream_check(replay->device, native, 0));
    GPUR_TRY(gpur_caller_arrays_locate(replay->device, count, ids, priorities, "priorities", &request.on_device));
    if (count == 0)
        return GPUR_OK;
    if (!request.on_device) {
        GPUR_TRY(check_values(count, priorities));
        GPUR_TRY(gpur_consumer_check_ids_of_update(replay, count, ids));
    }
    GPUR_TRY(gpur_consumer_begin(replay, gpur_consumer_refresh, &stream));
    return gpur_consumer_end(replay,
                             (request.on_device ? update_from_device : update_from_host)(replay, stream, &request));
}

static gpur_status read_locked(void *context)
{
    const priority_work *const w = context;
    const gpur_priorities *const p = &w->replay->priorities;
    const gpur_priority_read_args args = {
        .tree = p->tree, .window = p->window, .id = p->ids, .priority = p->values, .count = w->count};
    GPUR_TRY(gpur_launch_priority_read(w->stream, gpur_grid_elements(p->device, w->count), &args));
    return gpur_copy(w->stream, pinned_values(w->replay), p->values, w->count * (int64_t)sizeof *p->values);
}

/* With eviction by priority only the device knows which rows are there. */
static gpur_status check_found(int64_t count, const int64_t *ids, const float *values)
{
    for (int64_t i = 0; i < count; i++)
        if (isnan(values[i]))
            return gpur_fail(GPUR_EVICTED, "ids[%" PRId64 "] is %" PRId64 ", and no visible transition has this id", i,
                             ids[i]);
    return GPUR_OK;
}

static gpur_status read(gpur_replay *replay, gpur_stream *stream, int64_t count, const int64_t *ids, float *priorities)
{
    priority_work work = {.replay = replay, .stream = stream, .count = count};
    GPUR_TRY(upload_ids(replay, stream, count, ids));
    GPUR_TRY(gpur_with_ids_locked(replay, count, ids, read_locked, &work));
    GPUR_TRY(gpur_stream_sync(stream));
    GPUR_TRY(check_found(count, ids, pinned_values(replay)));
    memcpy(priorities, pinned_values(replay), (size_t)count * sizeof *priorities);
    return GPUR_OK;
}

gpur_status gpur_replay_get_priorities(gpur_replay *replay, int64_t count, const int64_t *ids, float *priorities)
{
    gpur_stream *stream = NULL;
    GPUR_TRY(check(replay));
    GPUR_TRY(gpur_replay_refuse_lanes(replay, "gpur_replay_get_priorities"));
    GPUR_TRY(check_count(replay, count, 1));
    GPUR_REQUIRE(ids && priorities, "%s is NULL; it must be %" PRId64 " numbers", ids ? "priorities" : "ids", count);
    GPUR_TRY(gpur_consumer_check_ids(replay, count, ids));
    GPUR_TRY(gpur_consumer_begin(replay, (gpur_consumer_launch){GPUR_LAUNCH_SAMPLE, 1, 0}, &stream));
    return gpur_consumer_end(replay, read(replay, stream, count, ids, priorities));
}

static gpur_status rebuild_locked(void *context)
{
    const priority_work *const w = context;
    return gpur_priorities_set_alpha(&w->replay->priorities, w->stream, w->alpha);
}

gpur_status gpur_replay_set_alpha(gpur_replay *replay, float alpha)
{
    priority_work work = {.replay = replay, .alpha = alpha};
    GPUR_TRY(check(replay));
    GPUR_TRY(gpur_exponent_check(alpha, "alpha"));
    GPUR_TRY(gpur_consumer_begin(replay, gpur_consumer_refresh, &work.stream));
    return gpur_consumer_end(replay, gpur_with_window_locked(replay, rebuild_locked, &work));
}

gpur_status gpur_replay_set_beta(gpur_replay *replay, float beta)
{
    const gpur_schedule fixed = {.first = beta, .last = beta};
    GPUR_TRY(check(replay));
    GPUR_TRY(gpur_exponent_check(beta, "beta"));
    gpur_consumer_lock(replay);
    replay->config.beta = fixed;
    gpur_consumer_unlock(replay);
    return GPUR_OK;
}

static gpur_status validate_locked(void *context)
{
    const priority_work *const w = context;
    return gpur_priorities_validate(&w->replay->priorities, w->stream);
}

static float number_of(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* Of the next transition that has none. */
static float first_priority(const gpur_priorities *p)
{
    const uint32_t bits = p->tree.first_ever ? p->host_state->ever : p->host_state->largest;
    return bits ? number_of(bits) : 1.0f;
}

static gpur_priority_stats stats_of(const gpur_replay *replay, const gpur_priorities *p)
{
    const gpur_schedule *const beta = &replay->config.beta;
    const gpur_priority_stats stats = {
        .size = sizeof stats,
        .alpha = p->host_state->alpha,
        .beta = gpur_schedule_value(beta->first, beta->last, beta->begin, beta->steps, replay->consumer.samples),
        .total = (double)*p->host_total / GPUR_LEAF_ONE * exp2((double)p->host_state->alpha * p->host_state->octave),
        .max_priority = first_priority(p),
        .min_priority = p->host_report->nonzero_leaves > 0 ? number_of(p->host_report->min_priority) : 0.0f,
        .nonzero = p->host_report->nonzero_leaves,
        .updates = p->host_state->updates,
        .stale = p->host_state->stale,
        .invalid = p->host_state->invalid,
        .raised = p->host_report->raised,
    };
    return stats;
}

/* Holds the consumer lock until the results have been read: another validation would overwrite them. */
static gpur_status validate(gpur_replay *replay, gpur_priority_stats *stats, int64_t *wrong)
{
    priority_work work = {.replay = replay};
    GPUR_TRY(gpur_consumer_begin(replay, gpur_consumer_refresh, &work.stream));
    gpur_status status = gpur_with_window_locked(replay, validate_locked, &work);
    if (status == GPUR_OK)
        status = gpur_stream_sync(work.stream);
    if (status == GPUR_OK) {
        *stats = stats_of(replay, &replay->priorities);
        *wrong = replay->priorities.host_report[0].wrong + replay->priorities.host_report[1].wrong;
    }
    return gpur_consumer_end(replay, status);
}

gpur_status gpur_replay_get_priority_stats(gpur_replay *replay, gpur_priority_stats *given)
{
    gpur_priority_stats stats;
    int64_t wrong = 0;
    GPUR_TRY(check(replay));
    GPUR_TRY(gpur_sized_check(given, "gpur_priority_stats"));
    GPUR_TRY(validate(replay, &stats, &wrong));
    return gpur_sized_write(given, &stats, sizeof stats, "gpur_priority_stats");
}

gpur_status gpur_replay_check_priorities(gpur_replay *replay, int64_t *wrong)
{
    gpur_priority_stats stats;
    int64_t found = 0;
    GPUR_TRY(check(replay));
    GPUR_REQUIRE(wrong, "wrong is NULL; it must be where the number goes");
    GPUR_TRY(validate(replay, &stats, &found));
    *wrong = found;
    return GPUR_OK;
}
