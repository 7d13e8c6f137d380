/* SPDX-License-Identifier: MIT */
#include "replay/sampler/consumer.h"

#include "replay/replay.h"

#include <inttypes.h>

/* Special values of `needed`: a launch that publishes nothing, and one that reads rows without sampling. */
enum { QUIETLY = 0, LOOKING = -1 };

static gpur_status begin_held(gpur_intake *intake, int64_t needed, int64_t burn_in)
{
    if (needed == QUIETLY)
        return gpur_feed_begin_turn(&intake->feed);
    return needed == LOOKING ? gpur_intake_begin_look(intake) : gpur_intake_begin_launch(intake, needed, burn_in);
}

static gpur_status begin(gpur_replay *replay, int64_t needed, int64_t burn_in)
{
    GPUR_TRY(gpur_event_sync(replay->done[replay->launches % 2])); /* launch n - 2, if this one is n */
    gpur_intake_lock(&replay->intake);
    const gpur_status status = begin_held(&replay->intake, needed, burn_in);
    gpur_intake_unlock(&replay->intake);
    return status;
}

gpur_status gpur_consumer_begin_in_turn(gpur_replay *replay, int64_t needed, int64_t burn_in, gpur_stream **stream)
{
    const gpur_status status = begin(replay, needed, burn_in);
    if (status != GPUR_OK)
        gpur_fair_lock_give(&replay->turn);
    *stream = replay->intake.feed.consumer;
    return status;
}

gpur_status gpur_consumer_begin(gpur_replay *replay, int64_t needed, gpur_stream **stream)
{
    gpur_consumer_take_turn(replay);
    return gpur_consumer_begin_in_turn(replay, needed, 0, stream);
}

gpur_status gpur_consumer_begin_draw(gpur_replay *replay, int64_t needed, gpur_stream **stream)
{
    gpur_consumer_take_turn(replay);
    return gpur_consumer_begin_in_turn(replay, needed, replay->config.min_size, stream);
}

void gpur_consumer_take_turn(gpur_replay *replay)
{
    gpur_fair_lock_take(&replay->turn);
}

gpur_status gpur_consumer_check(gpur_replay *replay, int64_t needed, int64_t burn_in)
{
    gpur_intake_lock(&replay->intake);
    const gpur_status status = gpur_intake_check_launch(&replay->intake, needed, burn_in);
    gpur_intake_unlock(&replay->intake);
    return status;
}

void gpur_consumer_give_turn(gpur_replay *replay)
{
    gpur_fair_lock_give(&replay->turn);
}

gpur_status gpur_consumer_begin_look(gpur_replay *replay, gpur_stream **stream)
{
    return gpur_consumer_begin(replay, LOOKING, stream);
}

gpur_status gpur_consumer_end(gpur_replay *replay)
{
    const gpur_status status = gpur_event_record(replay->done[replay->launches % 2], replay->intake.feed.consumer);
    replay->launches++;
    gpur_intake_lock(&replay->intake);
    gpur_feed_end_launch(&replay->intake.feed);
    gpur_intake_unlock(&replay->intake);
    gpur_fair_lock_give(&replay->turn);
    return status;
}

static void thaw(gpur_replay *replay)
{
    gpur_intake_lock(&replay->intake);
    gpur_intake_thaw(&replay->intake);
    gpur_intake_unlock(&replay->intake);
}

static gpur_status freeze(gpur_replay *replay)
{
    gpur_intake *const intake = &replay->intake;
    gpur_intake_lock(intake);
    gpur_status status = gpur_intake_freeze(intake);
    if (status == GPUR_OK)
        status = gpur_feed_begin_look(&intake->feed, 1);
    gpur_intake_unlock(intake);
    return status == GPUR_OK ? gpur_stream_sync(intake->feed.consumer) : status;
}

gpur_status gpur_consumer_freeze(gpur_replay *replay, gpur_stream **stream)
{
    gpur_fair_lock_take(&replay->turn);
    const gpur_status status = freeze(replay);
    if (status != GPUR_OK) {
        thaw(replay);
        gpur_fair_lock_give(&replay->turn);
    }
    *stream = replay->intake.feed.consumer;
    return status;
}

gpur_status gpur_consumer_thaw(gpur_replay *replay)
{
    thaw(replay);
    return gpur_consumer_end(replay);
}

/* Ids count up from 0, so every id below the window was that of a row once. */
static gpur_status check_ids(const gpur_window *visible, int64_t count, const int64_t *ids)
{
    const int64_t first = visible->first_id, end = first + visible->count;
    for (int64_t i = 0; i < count; i++) {
        const int was_there = ids[i] >= 0 && ids[i] < first;
        const gpur_status status = was_there ? GPUR_EVICTED : GPUR_INVALID_ARGUMENT;
        if (ids[i] < first || ids[i] >= end)
            return gpur_fail(status, "ids[%" PRId64 "] is %" PRId64 "%s; the visible transitions are %" PRId64
                             " to %" PRId64, i, ids[i], was_there ? ", and has been overwritten" : "", first, end - 1);
    }
    return GPUR_OK;
}

gpur_status gpur_consumer_refuse_ids(gpur_replay *replay, int64_t count, const int64_t *ids)
{
    gpur_intake_lock(&replay->intake);
    const gpur_window visible = gpur_intake_visible(&replay->intake);
    gpur_intake_unlock(&replay->intake);
    return visible.count > 0 ? check_ids(&visible, count, ids) : GPUR_OK;
}

gpur_status gpur_consumer_hold_ids(gpur_replay *replay, int64_t count, const int64_t *ids)
{
    gpur_intake_lock(&replay->intake);
    const gpur_status status = check_ids(&replay->intake.feed.mirror, count, ids);
    if (status != GPUR_OK)
        gpur_intake_unlock(&replay->intake);
    return status;
}

void gpur_consumer_hold(gpur_replay *replay)
{
    gpur_intake_lock(&replay->intake);
}

void gpur_consumer_let_go(gpur_replay *replay)
{
    gpur_intake_unlock(&replay->intake);
}
