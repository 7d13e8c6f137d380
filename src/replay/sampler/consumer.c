/* SPDX-License-Identifier: MIT */
#include "replay/sampler/consumer.h"

#include "replay/replay.h"

#include <inttypes.h>

const gpur_consumer_launch gpur_consumer_refresh = {.kind = GPUR_LAUNCH_REFRESH};
const gpur_consumer_launch gpur_consumer_without_publishing = {.kind = GPUR_LAUNCH_WITHOUT_PUBLISHING};

gpur_status gpur_consumer_build(gpur_replay *replay)
{
    gpur_consumer *const consumer = &replay->consumer;
    gpur_device *const device = replay->device;
    const int64_t id_bytes = 2 * replay->config.max_batch * (int64_t)sizeof *consumer->ids;
    GPUR_TRY(gpur_ticket_lock_open(&consumer->lock, "a replay"));
    GPUR_TRY(gpur_stream_create_main(device, &consumer->stream));
    GPUR_TRY(gpur_event_create(device, &consumer->done[0]));
    GPUR_TRY(gpur_event_create(device, &consumer->done[1]));
    GPUR_TRY(gpur_event_create(device, &consumer->handed));
    return gpur_pinned_alloc(device, id_bytes, "the ids of a gather", (void **)&consumer->ids);
}

void gpur_consumer_destroy(gpur_replay *replay)
{
    gpur_consumer *const consumer = &replay->consumer;
    gpur_pinned_free(replay->device, consumer->ids);
    gpur_event_destroy(consumer->done[0]);
    gpur_event_destroy(consumer->done[1]);
    gpur_event_destroy(consumer->handed);
    gpur_ticket_lock_close(&consumer->lock);
}

/* `size` rows are visible, and `ever` have become so. */
static gpur_status check_rows(int64_t size, int64_t ever, gpur_consumer_launch launch)
{
    const int64_t least = launch.burn_in > launch.rows ? launch.burn_in : launch.rows;
    if (size == 0)
        return gpur_fail(GPUR_TOO_FEW, "the replay is empty; a sample needs at least %" PRId64 " transition%s", least,
                         least > 1 ? "s" : "");
    if (ever < launch.burn_in)
        return gpur_fail(GPUR_TOO_FEW,
                         "%" PRId64 " transitions have become visible so far; samples wait for min_size = %" PRId64,
                         ever, launch.burn_in);
    if (size < launch.rows)
        return gpur_fail(GPUR_TOO_FEW, "%" PRId64 " transitions are visible; this sample needs %" PRId64, size,
                         launch.rows);
    return GPUR_OK;
}

/* Requires the window lock. */
static gpur_status check_sample(const gpur_replay *replay, gpur_consumer_launch launch)
{
    const int64_t size = gpur_replay_visible(replay).count;
    return check_rows(size, replay->window.evicted + size, launch);
}

/* Of lanes the device alone knows how many rows there are. It is asked, and waited for, until it has told of as many as
 * a launch needs. Kernels change nothing if these are gone again. */
static gpur_status check_lanes(gpur_replay *replay, gpur_consumer_launch launch)
{
    gpur_lane_store *const lanes = &replay->lanes;
    gpur_lanes_state state;
    if (!lanes->device || launch.kind != GPUR_LAUNCH_SAMPLE || launch.rows <= lanes->told)
        return GPUR_OK;
    GPUR_TRY(gpur_lane_store_read(lanes, replay->consumer.stream, &state));
    lanes->told = state.whole;
    if (state.whole == 0)
        return gpur_fail(GPUR_TOO_FEW,
                         "no transition can be drawn yet, after %" PRId64 " steps of the lanes; a step can be "
                         "drawn once the one after it has come, or its final observation",
                         state.steps);
    return check_rows(state.whole, state.whole, launch);
}

gpur_status gpur_consumer_check(gpur_replay *replay, gpur_consumer_launch sample)
{
    gpur_window_lock(replay);
    const gpur_status status = check_sample(replay, sample);
    gpur_window_unlock(replay);
    return status;
}

static gpur_status begin_sample(gpur_replay *replay, gpur_consumer_launch launch)
{
    GPUR_TRY(check_sample(replay, launch));
    if (replay->config.flush == GPUR_FLUSH_AUTO) {
        GPUR_TRY(gpur_ingest_flush(&replay->ingest));
        gpur_window_publish_all_next(&replay->window);
    }
    return gpur_window_begin_launch(&replay->window);
}

static gpur_status begin_refresh(gpur_replay *replay)
{
    const int is_auto = replay->config.flush == GPUR_FLUSH_AUTO;
    if (is_auto)
        GPUR_TRY(gpur_ingest_flush(&replay->ingest));
    return gpur_window_begin_refresh(&replay->window, is_auto);
}

/* Requires the window lock. With lanes the device's window is the only one: there is nothing to publish. */
static gpur_status begin(gpur_replay *replay, gpur_consumer_launch launch)
{
    switch (replay->lanes.device ? GPUR_LAUNCH_WITHOUT_PUBLISHING : launch.kind) {
    case GPUR_LAUNCH_SAMPLE:
        return begin_sample(replay, launch);
    case GPUR_LAUNCH_REFRESH:
        return begin_refresh(replay);
    default:
        return gpur_window_begin_without_publishing(&replay->window);
    }
}

/* Waits for launch n - 2, if this one is n. */
static gpur_status wait_and_begin(gpur_replay *replay, gpur_consumer_launch launch)
{
    GPUR_TRY(gpur_own_stream_check(replay->device));
    GPUR_TRY(gpur_event_sync(replay->consumer.done[replay->consumer.launches % 2]));
    GPUR_TRY(check_lanes(replay, launch));
    gpur_window_lock(replay);
    const gpur_status status = begin(replay, launch);
    gpur_window_unlock(replay);
    return status;
}

void gpur_consumer_lock(gpur_replay *replay)
{
    gpur_ticket_lock_lock(&replay->consumer.lock);
}

void gpur_consumer_unlock(gpur_replay *replay)
{
    gpur_ticket_lock_unlock(&replay->consumer.lock);
}

gpur_status gpur_consumer_begin_locked(gpur_replay *replay, gpur_consumer_launch launch, gpur_stream **stream)
{
    const gpur_status status = wait_and_begin(replay, launch);
    if (status != GPUR_OK)
        gpur_consumer_unlock(replay);
    *stream = replay->consumer.stream;
    return status;
}

gpur_status gpur_consumer_begin(gpur_replay *replay, gpur_consumer_launch launch, gpur_stream **stream)
{
    gpur_consumer_lock(replay);
    return gpur_consumer_begin_locked(replay, launch, stream);
}

gpur_status gpur_consumer_end(gpur_replay *replay, gpur_status status)
{
    gpur_consumer *const consumer = &replay->consumer;
    const gpur_status recorded = gpur_event_record(consumer->done[consumer->launches % 2], consumer->stream);
    consumer->launches++;
    gpur_window_lock(replay);
    gpur_window_end_launch(&replay->window);
    gpur_window_unlock(replay);
    gpur_consumer_unlock(replay);
    return status != GPUR_OK ? status : recorded;
}

/* Launches on two replays. */

/* Work enqueued on `to` from now on is behind that on `from`. */
static gpur_status hand_over(gpur_event *event, gpur_stream *from, gpur_stream *to)
{
    GPUR_TRY(gpur_event_record(event, from));
    return gpur_stream_wait(to, event);
}

/* In the order of addresses, so that two launches with the same replays never wait for each other. */
static void lock_both(gpur_replay *first, gpur_replay *second)
{
    const int is_first_lower = (uintptr_t)first < (uintptr_t)second;
    gpur_consumer_lock(is_first_lower ? first : second);
    gpur_consumer_lock(is_first_lower ? second : first);
}

static gpur_status check_launch(gpur_replay *replay, gpur_consumer_launch launch)
{
    return launch.kind == GPUR_LAUNCH_SAMPLE ? gpur_consumer_check(replay, launch) : GPUR_OK;
}

/* Requires the window lock. */
static gpur_status begin_on(gpur_replay *replay, gpur_consumer_launch launch, gpur_stream *stream)
{
    GPUR_TRY(hand_over(replay->consumer.handed, replay->consumer.stream, stream));
    replay->storage.consumer_stream = stream;
    const gpur_status status = begin(replay, launch);
    if (status != GPUR_OK)
        replay->storage.consumer_stream = replay->consumer.stream;
    return status;
}

static gpur_status wait_and_begin_on(gpur_replay *replay, gpur_consumer_launch launch, gpur_stream *stream)
{
    GPUR_TRY(gpur_event_sync(replay->consumer.done[replay->consumer.launches % 2]));
    gpur_window_lock(replay);
    const gpur_status status = begin_on(replay, launch, stream);
    gpur_window_unlock(replay);
    return gpur_prefix_error(status, "demonstrations");
}

/* Requires both consumer locks. */
static gpur_status begin_both(gpur_replay *first, gpur_consumer_launch launch, gpur_replay *second,
                              gpur_consumer_launch second_launch)
{
    GPUR_TRY(check_launch(first, launch));
    GPUR_TRY(gpur_prefix_error(check_launch(second, second_launch), "demonstrations"));
    return wait_and_begin(first, launch);
}

gpur_status gpur_consumer_begin_both(gpur_replay *first, gpur_consumer_launch launch, gpur_replay *second,
                                     gpur_consumer_launch second_launch, gpur_stream **stream)
{
    if (!second)
        return gpur_consumer_begin(first, launch, stream);
    lock_both(first, second);
    *stream = first->consumer.stream;
    gpur_status status = begin_both(first, launch, second, second_launch);
    if (status != GPUR_OK) {
        gpur_consumer_unlock(first);
        gpur_consumer_unlock(second);
        return status;
    }
    status = wait_and_begin_on(second, second_launch, *stream);
    if (status == GPUR_OK)
        return GPUR_OK;
    gpur_consumer_unlock(second);
    return gpur_consumer_end(first, status);
}

gpur_status gpur_consumer_end_both(gpur_replay *first, gpur_replay *second, gpur_status status)
{
    if (second) {
        gpur_window_lock(second);
        second->storage.consumer_stream = second->consumer.stream;
        const gpur_status handed = hand_over(second->consumer.handed, first->consumer.stream, second->consumer.stream);
        gpur_window_unlock(second);
        status = gpur_consumer_end(second, status != GPUR_OK ? status : handed);
    }
    return gpur_consumer_end(first, status);
}

static void resume_writers(gpur_replay *replay)
{
    gpur_window_lock(replay);
    gpur_ingest_resume(&replay->ingest);
    gpur_window_unlock(replay);
}

static gpur_status pause_writers(gpur_replay *replay)
{
    gpur_window_lock(replay);
    gpur_status status = gpur_ingest_pause(&replay->ingest);
    if (status == GPUR_OK)
        status = gpur_window_begin_refresh(&replay->window, 1);
    gpur_window_unlock(replay);
    return status == GPUR_OK ? gpur_stream_sync(replay->consumer.stream) : status;
}

gpur_status gpur_consumer_begin_exclusive(gpur_replay *replay, gpur_stream **stream)
{
    gpur_consumer_lock(replay);
    gpur_status status = gpur_own_stream_check(replay->device);
    status = status == GPUR_OK ? pause_writers(replay) : status;
    if (status != GPUR_OK) {
        resume_writers(replay);
        gpur_consumer_unlock(replay);
    }
    *stream = replay->consumer.stream;
    return status;
}

gpur_status gpur_consumer_end_exclusive(gpur_replay *replay, gpur_status status)
{
    resume_writers(replay);
    return gpur_consumer_end(replay, status);
}

/* The first id that no row can have had. With eviction by priority only the device knows which ids there are. The
 * window's first_id is then the number of rows that were evicted, so no slot has had more rows than that before its
 * present one. */
static int64_t end_of_ids(const gpur_replay *replay, const gpur_window *visible)
{
    const int64_t evicted = visible->first_id, capacity = replay->config.capacity;
    if (replay->config.eviction != GPUR_EVICT_BY_PRIORITY || evicted == 0)
        return evicted + visible->count;
    return evicted >= INT64_MAX / capacity ? INT64_MAX : (evicted + 1) * capacity;
}

static gpur_status refuse_id(const gpur_replay *replay, const gpur_window *visible, int64_t at, int64_t id)
{
    const int64_t first = visible->first_id, end = end_of_ids(replay, visible);
    if (visible->count == 0)
        return gpur_fail(GPUR_INVALID_ARGUMENT, "ids[%" PRId64 "] is %" PRId64 ", and no transition is visible yet", at,
                         id);
    if (replay->config.eviction == GPUR_EVICT_BY_PRIORITY)
        return gpur_fail(GPUR_INVALID_ARGUMENT,
                         "ids[%" PRId64 "] is %" PRId64 ", which no transition has had; their ids are 0 to %" PRId64
                         " at most",
                         at, id, end - 1);
    const int was_there = id >= 0 && id < first;
    return gpur_fail(was_there ? GPUR_EVICTED : GPUR_INVALID_ARGUMENT,
                     "ids[%" PRId64 "] is %" PRId64 "%s; the visible transitions are %" PRId64 " to %" PRId64, at, id,
                     was_there ? ", and has been overwritten" : "", first, end - 1);
}

/* Refuses ids below `first` and those that no row has had. */
static gpur_status check_ids_from(const gpur_replay *replay, const gpur_window *visible, int64_t first, int64_t count,
                                  const int64_t *ids)
{
    const int64_t end = end_of_ids(replay, visible);
    for (int64_t i = 0; i < count; i++)
        if (ids[i] < first || ids[i] >= end)
            return refuse_id(replay, visible, i, ids[i]);
    return GPUR_OK;
}

/* Ids count up from 0, so every id below the window was that of a row once. */
static gpur_status check_ids(const gpur_replay *replay, const gpur_window *visible, int64_t count, const int64_t *ids)
{
    const int64_t first = replay->config.eviction == GPUR_EVICT_BY_PRIORITY ? 0 : visible->first_id;
    return check_ids_from(replay, visible, first, count, ids);
}

static gpur_window visible_now(gpur_replay *replay)
{
    gpur_window_lock(replay);
    const gpur_window visible = gpur_replay_visible(replay);
    gpur_window_unlock(replay);
    return visible;
}

gpur_status gpur_consumer_check_ids(gpur_replay *replay, int64_t count, const int64_t *ids)
{
    const gpur_window visible = visible_now(replay);
    return visible.count > 0 ? check_ids(replay, &visible, count, ids) : GPUR_OK;
}

gpur_status gpur_consumer_check_ids_of_update(gpur_replay *replay, int64_t count, const int64_t *ids)
{
    const gpur_window visible = visible_now(replay);
    return check_ids_from(replay, &visible, -1, count, ids);
}

gpur_status gpur_with_window_locked(gpur_replay *replay, gpur_locked_fn fn, void *context)
{
    gpur_window_lock(replay);
    const gpur_status status = fn(context);
    gpur_window_unlock(replay);
    return status;
}

gpur_status gpur_with_ids_locked(gpur_replay *replay, int64_t count, const int64_t *ids, gpur_locked_fn fn,
                                 void *context)
{
    gpur_window_lock(replay);
    gpur_status status = check_ids(replay, &replay->window.host, count, ids);
    if (status == GPUR_OK)
        status = fn(context);
    gpur_window_unlock(replay);
    return status;
}
