/* SPDX-License-Identifier: MIT */
#include "replay/intake.h"

#include "base/clock.h"

#include <inttypes.h>

gpur_status gpur_intake_build(gpur_intake *intake, gpur_device *device, const gpur_replay_config *config,
                              const gpur_schema *schema, const gpur_replay_plan *plan)
{
    intake->flush = config->flush;
    intake->when_full = config->when_full;
    if (pthread_mutex_init(&intake->lock, NULL) != 0 || pthread_cond_init(&intake->changed, NULL) != 0)
        return gpur_fail(GPUR_OUT_OF_MEMORY, "no lock for a replay: the system has no more of them");
    GPUR_TRY(gpur_feed_build(&intake->feed, device, config, schema, plan));
    return gpur_staging_build(&intake->staging, device, config->staging_blocks, config->update_size, schema->pitch);
}

void gpur_intake_destroy(gpur_intake *intake)
{
    gpur_feed_destroy(&intake->feed); /* first: its copies read the staging blocks */
    gpur_staging_destroy(&intake->staging);
    pthread_cond_destroy(&intake->changed);
    pthread_mutex_destroy(&intake->lock);
}

void gpur_intake_lock(gpur_intake *intake)
{
    pthread_mutex_lock(&intake->lock);
}

int gpur_intake_try_lock(gpur_intake *intake)
{
    return pthread_mutex_trylock(&intake->lock) == 0;
}

void gpur_intake_unlock(gpur_intake *intake)
{
    pthread_mutex_unlock(&intake->lock);
}

static void sleep_until_changed(gpur_intake *intake)
{
    intake->sleepers++;
    pthread_cond_wait(&intake->changed, &intake->lock);
    intake->sleepers--;
}

/* Nearly always nobody sleeps, and a small append is quick enough to notice the call. */
static void tell_change(gpur_intake *intake)
{
    if (intake->sleepers > 0)
        pthread_cond_broadcast(&intake->changed);
}

/* Waits for the oldest copy, or where other threads hold every block, for them. The copies are behind at most two
 * launches, all enqueued, so the wait ends whatever the other threads do. */
static gpur_status wait_for_block(gpur_intake *intake)
{
    gpur_staging *const staging = &intake->staging;
    const double begin = gpur_clock_seconds();
    gpur_status status = GPUR_OK;
    if (staging->spare.count > 0) {
        gpur_block *const oldest = gpur_queue_take(&staging->spare, 0);
        gpur_intake_unlock(intake);
        status = gpur_event_sync(oldest->copied);
        gpur_intake_lock(intake);
        gpur_queue_push(&staging->spare, oldest);
        tell_change(intake);
    } else {
        sleep_until_changed(intake);
    }
    intake->waits++;
    intake->wait_seconds += gpur_clock_seconds() - begin;
    return status;
}

static gpur_status open_block(gpur_intake *intake)
{
    gpur_staging *const staging = &intake->staging;
    staging->open = gpur_staging_take_idle(staging);
    if (staging->open)
        return GPUR_OK;
    if (intake->when_full == GPUR_WHEN_FULL_ERROR)
        return gpur_fail(GPUR_WOULD_BLOCK,
                         "all %d staging blocks of %" PRId64 " rows are in use; call again later, or "
                         "set when_full to GPUR_WHEN_FULL_WAIT",
                         (int)staging->count, staging->block_rows);
    return wait_for_block(intake);
}

void gpur_intake_settle(gpur_intake *intake)
{
    if (intake->sealing == 0)
        return;
    const double begin = gpur_clock_seconds();
    while (intake->sealing > 0)
        sleep_until_changed(intake);
    intake->wait_seconds += gpur_clock_seconds() - begin;
}

gpur_status gpur_intake_claim(gpur_intake *intake, int64_t wanted, gpur_claim *claim)
{
    gpur_staging *const staging = &intake->staging;
    gpur_intake_settle(intake);
    while (!staging->open) {
        GPUR_TRY(open_block(intake));
        gpur_intake_settle(intake);
    }
    gpur_block *const block = staging->open;
    const int64_t room = staging->block_rows - block->filled;
    claim->block = block;
    claim->rows = block->rows + block->filled * staging->pitch;
    claim->count = wanted < room ? wanted : room;
    block->filled += claim->count;
    block->writing++;
    intake->writing++;
    intake->staged += claim->count;
    if (block->filled == staging->block_rows) {
        gpur_queue_push(&staging->closed, block);
        staging->open = NULL;
    }
    return GPUR_OK;
}

int gpur_intake_has_room(const gpur_intake *intake, int64_t wanted)
{
    const gpur_block *const open = intake->staging.open;
    if (intake->sealing > 0)
        return 0;
    return (open && wanted <= intake->staging.block_rows - open->filled) ||
           wanted <= gpur_staging_room(&intake->staging);
}

int gpur_intake_fills_block(const gpur_intake *intake, int64_t wanted)
{
    const gpur_block *const open = intake->staging.open;
    return wanted >= intake->staging.block_rows - (open ? open->filled : 0);
}

static gpur_status feed_block(gpur_intake *intake, gpur_block *block)
{
    const int64_t rows = block->filled - block->fed;
    if (rows == 0)
        return GPUR_OK;
    const unsigned char *const from = block->rows + block->fed * intake->staging.pitch;
    block->fed = block->filled;
    intake->staged -= rows;
    return gpur_feed_rows(&intake->feed, from, rows, block->copied);
}

/* In the order in which they were opened, so that ids follow the order of appends. */
static gpur_status feed_closed(gpur_intake *intake)
{
    gpur_staging *const staging = &intake->staging;
    while (staging->closed.count > 0 && staging->closed.blocks[0]->writing == 0) {
        gpur_block *const block = gpur_queue_take(&staging->closed, 0);
        const gpur_status status = feed_block(intake, block);
        block->filled = block->fed = 0;
        gpur_queue_push(&staging->spare, block);
        GPUR_TRY(status);
    }
    return GPUR_OK;
}

gpur_status gpur_intake_commit(gpur_intake *intake, const gpur_claim *claim)
{
    claim->block->writing--;
    intake->writing--;
    intake->appended += claim->count;
    const gpur_status status = feed_closed(intake);
    tell_change(intake);
    return status;
}

int gpur_intake_is_clear(const gpur_intake *intake)
{
    const gpur_block *const open = intake->staging.open;
    return intake->staged == 0 && intake->writing == 0 && intake->sealing == 0 && (!open || open->filled == 0);
}

gpur_status gpur_intake_seal(gpur_intake *intake)
{
    intake->sealing++;
    while (intake->writing > 0)
        sleep_until_changed(intake);
    intake->sealing--;
    tell_change(intake);
    return intake->staging.open ? feed_block(intake, intake->staging.open) : GPUR_OK;
}

gpur_window gpur_intake_visible(const gpur_intake *intake)
{
    const gpur_feed *const feed = &intake->feed;
    gpur_window visible = feed->mirror;
    visible.count += feed->soon;
    if (intake->flush == GPUR_FLUSH_AUTO)
        visible.count += feed->late + intake->staged;
    if (visible.count > feed->capacity) {
        visible.first_id += visible.count - feed->capacity;
        visible.first_slot = visible.first_id % feed->capacity;
        visible.count = feed->capacity;
    }
    return visible;
}

gpur_status gpur_intake_begin_launch(gpur_intake *intake, int64_t needed)
{
    const int64_t size = gpur_intake_visible(intake).count;
    if (size == 0)
        return gpur_fail(GPUR_TOO_FEW, "the replay is empty; a draw needs at least 1 transition");
    if (size < needed)
        return gpur_fail(GPUR_TOO_FEW, "%" PRId64 " transitions are visible; this draw needs %" PRId64, size, needed);
    if (intake->flush == GPUR_FLUSH_AUTO) {
        GPUR_TRY(gpur_intake_seal(intake));
        gpur_feed_hasten(&intake->feed);
    }
    return gpur_feed_begin_launch(&intake->feed);
}
