/* SPDX-License-Identifier: MIT */
#include "replay/storage/ingest.h"

#include "base/clock.h"

#include <assert.h>
#include <inttypes.h>

gpur_status gpur_intake_build(gpur_intake *intake, gpur_device *device, const gpur_replay_config *config,
                              const gpur_storage *storage, const gpur_replay_plan *plan)
{
    const int64_t rows = config->capacity + config->staging_blocks * config->update_size;
    intake->flush = config->flush;
    intake->when_full = config->when_full;
    GPUR_TRY(gpur_quick_lock_open(&intake->lock, "a replay"));
    GPUR_TRY(gpur_feed_build(&intake->feed, device, config, storage, plan));
    intake->feed.log = &intake->frames;
    GPUR_TRY(gpur_frame_log_build(&intake->frames, device, &storage->linking, rows));
    return gpur_staging_build(&intake->staging, device, config, storage);
}

void gpur_intake_destroy(gpur_intake *intake)
{
    gpur_feed_destroy(&intake->feed); /* first: its copies read the staging blocks */
    gpur_staging_destroy(&intake->staging);
    gpur_frame_log_destroy(&intake->frames);
    gpur_quick_lock_close(&intake->lock);
}

void gpur_intake_await_thaw(gpur_intake *intake)
{
    const double begin = gpur_clock_seconds();
    while (intake->frozen)
        gpur_quick_lock_sleep(&intake->lock);
    intake->wait_seconds += gpur_clock_seconds() - begin;
}

int gpur_intake_try_enter(gpur_intake *intake)
{
    if (!gpur_quick_lock_try(&intake->lock))
        return 0;
    if (intake->frozen) {
        gpur_intake_unlock(intake);
        return 0;
    }
    intake->inside++;
    return 1;
}

/* Waits until the oldest copy is done or, if other threads hold all blocks, until one of them signals a change. A copy
 * waits for at most two launches, which are enqueued already, so this wait ends whatever other threads do. */
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
        gpur_quick_lock_tell(&intake->lock);
    } else {
        gpur_quick_lock_sleep(&intake->lock);
    }
    intake->waits++;
    intake->wait_seconds += gpur_clock_seconds() - begin;
    return status;
}

void gpur_intake_count_fed(gpur_intake *intake, int64_t rows)
{
    intake->appended += rows;
    intake->ids += rows;
}

static gpur_status open_block(gpur_intake *intake, int waits)
{
    gpur_staging *const staging = &intake->staging;
    staging->open = gpur_staging_take_idle(staging);
    if (staging->open)
        return GPUR_OK;
    if (!waits)
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
        gpur_quick_lock_sleep(&intake->lock);
    intake->wait_seconds += gpur_clock_seconds() - begin;
}

static gpur_status feed_block(gpur_intake *intake, gpur_block *block)
{
    const int64_t rows = block->filled - block->fed;
    if (rows == 0)
        return GPUR_OK;
    const gpur_staging *const staging = &intake->staging;
    const gpur_feed_part part = {
        .rows = block->rows + block->fed * staging->pitch,
        .count = rows,
        .frames = block->frames + block->frames_fed * staging->frame_pitch,
        .frame_count = block->frames_filled - block->frames_fed,
    };
    block->fed = block->filled;
    block->frames_fed = block->frames_filled;
    intake->staged -= rows;
    return gpur_feed_rows(&intake->feed, &part, block->copied);
}

/* Uploads closed blocks without open claims, in the order in which they were opened, so that ids follow the order of
 * appends. */
static gpur_status feed_closed(gpur_intake *intake)
{
    gpur_staging *const staging = &intake->staging;
    while (staging->closed.count > 0 && staging->closed.blocks[0]->writing == 0) {
        gpur_block *const block = gpur_queue_take(&staging->closed, 0);
        const gpur_status status = feed_block(intake, block);
        gpur_block_clear(block);
        gpur_queue_push(&staging->spare, block);
        GPUR_TRY(status);
    }
    return GPUR_OK;
}

static void close_open(gpur_staging *staging)
{
    gpur_queue_push(&staging->closed, staging->open);
    staging->open = NULL;
}

/* Makes sure that the open block has room. A block without room for more frames is closed although it has free rows. */
static gpur_status find_room(gpur_intake *intake, int waits)
{
    gpur_staging *const staging = &intake->staging;
    gpur_intake_settle(intake);
    while (!staging->open || !gpur_block_has_room(staging, staging->open)) {
        if (staging->open) {
            close_open(staging);
            GPUR_TRY(feed_closed(intake));
        }
        GPUR_TRY(open_block(intake, waits));
        gpur_intake_settle(intake);
    }
    return GPUR_OK;
}

gpur_status gpur_intake_claim(gpur_intake *intake, int64_t wanted, int waits, gpur_claim *claim)
{
    gpur_staging *const staging = &intake->staging;
    GPUR_TRY(find_room(intake, waits));
    gpur_block *const block = staging->open;
    const int64_t room = staging->row_frames > 0 ? 1 : staging->block_rows - block->filled;
    claim->block = block;
    claim->rows = block->rows + block->filled * staging->pitch;
    claim->count = wanted < room ? wanted : room;
    claim->first_id = intake->ids;
    intake->ids += claim->count;
    block->filled += claim->count;
    block->writing++;
    intake->writing++;
    intake->staged += claim->count;
    if (block->filled == staging->block_rows)
        close_open(staging);
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

unsigned char *gpur_intake_claim_frame(gpur_intake *intake, const gpur_claim *claim, int64_t *id)
{
    gpur_block *const block = claim->block;
    assert(block->frames_filled < intake->staging.block_frames);
    *id = intake->frames.head++;
    return block->frames + block->frames_filled++ * intake->staging.frame_pitch;
}

gpur_status gpur_intake_commit(gpur_intake *intake, const gpur_claim *claim)
{
    claim->block->writing--;
    intake->writing--;
    intake->appended += claim->count;
    const gpur_status status = feed_closed(intake);
    gpur_quick_lock_tell(&intake->lock);
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
        gpur_quick_lock_sleep(&intake->lock);
    intake->sealing--;
    gpur_quick_lock_tell(&intake->lock);
    return intake->staging.open ? feed_block(intake, intake->staging.open) : GPUR_OK;
}

gpur_status gpur_intake_freeze(gpur_intake *intake)
{
    gpur_staging *const staging = &intake->staging;
    intake->frozen = 1;
    while (intake->inside > 0)
        gpur_quick_lock_sleep(&intake->lock);
    GPUR_TRY(gpur_intake_seal(intake));
    gpur_feed_hasten(&intake->feed);
    if (staging->open) {
        gpur_block_clear(staging->open);
        gpur_queue_push(&staging->spare, staging->open);
        staging->open = NULL;
    }
    return GPUR_OK;
}

void gpur_intake_thaw(gpur_intake *intake)
{
    intake->frozen = 0;
    gpur_quick_lock_tell(&intake->lock);
}

/* The consumers' side: what a launch sees, and how it begins. */

gpur_window gpur_intake_visible(const gpur_intake *intake)
{
    const gpur_feed *const feed = &intake->feed;
    gpur_window visible = feed->mirror;
    visible.count += feed->soon;
    if (intake->flush == GPUR_FLUSH_AUTO) {
        visible.count += feed->late + intake->staged;
        const int64_t leave = gpur_feed_leaving(feed, visible.count, intake->frames.head);
        visible.first_id += leave;
        visible.first_slot = visible.first_id % feed->capacity;
        visible.count -= leave;
    }
    return visible;
}

gpur_status gpur_intake_begin_look(gpur_intake *intake)
{
    const int is_auto = intake->flush == GPUR_FLUSH_AUTO;
    if (is_auto)
        GPUR_TRY(gpur_intake_seal(intake));
    return gpur_feed_begin_look(&intake->feed, is_auto);
}

gpur_status gpur_intake_check_launch(const gpur_intake *intake, int64_t needed, int64_t burn_in)
{
    const int64_t size = gpur_intake_visible(intake).count, ever = intake->feed.evicted + size;
    const int64_t least = burn_in > needed ? burn_in : needed;
    if (size == 0)
        return gpur_fail(GPUR_TOO_FEW, "the replay is empty; a draw needs at least %" PRId64 " transition%s", least,
                         least > 1 ? "s" : "");
    if (ever < burn_in)
        return gpur_fail(GPUR_TOO_FEW,
                         "%" PRId64 " transitions have become visible so far; draws wait for min_size = %" PRId64, ever,
                         burn_in);
    if (size < needed)
        return gpur_fail(GPUR_TOO_FEW, "%" PRId64 " transitions are visible; this draw needs %" PRId64, size, needed);
    return GPUR_OK;
}

gpur_status gpur_intake_begin_launch(gpur_intake *intake, int64_t needed, int64_t burn_in)
{
    GPUR_TRY(gpur_intake_check_launch(intake, needed, burn_in));
    if (intake->flush == GPUR_FLUSH_AUTO) {
        GPUR_TRY(gpur_intake_seal(intake));
        gpur_feed_hasten(&intake->feed);
    }
    return gpur_feed_begin_launch(&intake->feed);
}
