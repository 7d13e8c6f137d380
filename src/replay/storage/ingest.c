/* SPDX-License-Identifier: MIT */
#include "replay/storage/ingest.h"

#include "base/clock.h"
#include <assert.h>
#include <inttypes.h>

gpur_status gpur_ingest_build(gpur_ingest *ingest, const gpur_storage *storage, gpur_ring *ring)
{
    ingest->storage = storage;
    ingest->ring = ring;
    ingest->when_full = storage->config->when_full;
    return gpur_staging_build(&ingest->staging, storage->device, storage->config, storage->layout);
}

void gpur_ingest_destroy(gpur_ingest *ingest)
{
    gpur_staging_destroy(&ingest->staging);
}

/* Waits for a notification of the window lock; counts the time as waiting. */
static void wait(gpur_ingest *ingest)
{
    const double begin = gpur_clock_seconds();
    gpur_mutex_wait(ingest->storage->window_lock);
    ingest->wait_seconds += gpur_clock_seconds() - begin;
}

void gpur_ingest_begin_call(gpur_ingest *ingest)
{
    gpur_mutex_lock(ingest->storage->window_lock);
    while (ingest->paused)
        wait(ingest);
    ingest->active_calls++;
}

int gpur_ingest_try_begin_call(gpur_ingest *ingest)
{
    if (!gpur_mutex_try_lock(ingest->storage->window_lock))
        return 0;
    if (ingest->paused) {
        gpur_mutex_unlock(ingest->storage->window_lock);
        return 0;
    }
    ingest->active_calls++;
    return 1;
}

void gpur_ingest_end_call(gpur_ingest *ingest)
{
    ingest->active_calls--;
    if (ingest->paused)
        gpur_mutex_notify_all(ingest->storage->window_lock);
    gpur_mutex_unlock(ingest->storage->window_lock);
}

/* Waits until the oldest copy is done or, if other threads hold all blocks, until one of them signals a change. A copy
 * waits for at most two launches, which are enqueued already, so this wait ends whatever other threads do. */
static gpur_status wait_for_block(gpur_ingest *ingest)
{
    gpur_staging *const staging = &ingest->staging;
    const double begin = gpur_clock_seconds();
    gpur_status status = GPUR_OK;
    if (staging->spare.count > 0) {
        gpur_staging_block *const oldest = gpur_queue_remove(&staging->spare, 0);
        gpur_mutex_unlock(ingest->storage->window_lock);
        status = gpur_event_sync(oldest->copied);
        gpur_mutex_lock(ingest->storage->window_lock);
        gpur_queue_push(&staging->spare, oldest);
        gpur_mutex_notify_all(ingest->storage->window_lock);
    } else {
        gpur_mutex_wait(ingest->storage->window_lock);
    }
    ingest->waits++;
    ingest->wait_seconds += gpur_clock_seconds() - begin;
    return status;
}

void gpur_ingest_count_uploaded(gpur_ingest *ingest, int64_t rows)
{
    ingest->appended += rows;
    ingest->next_id += rows;
}

static gpur_status open_block(gpur_ingest *ingest, int waits)
{
    gpur_staging *const staging = &ingest->staging;
    staging->open = gpur_staging_pop_idle(staging);
    if (staging->open)
        return GPUR_OK;
    if (!waits)
        return gpur_fail(GPUR_WOULD_BLOCK,
                         "all %d staging blocks of %" PRId64 " rows are in use; call again later, or "
                         "set when_full to GPUR_WHEN_FULL_WAIT",
                         (int)staging->count, staging->block_rows);
    return wait_for_block(ingest);
}

void gpur_ingest_wait_flush(gpur_ingest *ingest)
{
    while (ingest->flushing > 0)
        wait(ingest);
}

static gpur_status upload_block(gpur_ingest *ingest, gpur_staging_block *block)
{
    const int64_t rows = block->filled - block->uploaded;
    if (rows == 0)
        return GPUR_OK;
    const gpur_staging *const staging = &ingest->staging;
    const gpur_upload upload = {
        .rows = block->rows + block->uploaded * staging->pitch,
        .count = rows,
        .frames = block->frames + block->frames_uploaded * staging->frame_pitch,
        .frame_count = block->frames_filled - block->frames_uploaded,
    };
    block->uploaded = block->filled;
    block->frames_uploaded = block->frames_filled;
    ingest->staged -= rows;
    return gpur_ring_upload(ingest->ring, &upload, block->copied);
}

/* Uploads closed blocks without open claims, in the order in which they were opened, so that ids follow the order of
 * appends. */
static gpur_status upload_closed(gpur_ingest *ingest)
{
    gpur_staging *const staging = &ingest->staging;
    while (staging->closed.count > 0 && staging->closed.blocks[0]->writing == 0) {
        gpur_staging_block *const block = gpur_queue_remove(&staging->closed, 0);
        const gpur_status status = upload_block(ingest, block);
        gpur_staging_block_clear(block);
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

/* Makes sure that the open block has room. A block without room for so many frames is closed although it has free rows,
 * and the other way around. */
static gpur_status find_room(gpur_ingest *ingest, int64_t rows, int64_t frames, int waits)
{
    gpur_staging *const staging = &ingest->staging;
    gpur_ingest_wait_flush(ingest);
    while (!staging->open || !gpur_staging_block_has_room(staging, staging->open, rows, frames)) {
        if (staging->open) {
            close_open(staging);
            GPUR_TRY(upload_closed(ingest));
        }
        GPUR_TRY(open_block(ingest, waits));
        gpur_ingest_wait_flush(ingest);
    }
    return GPUR_OK;
}

/* Claims rows and frames of the open block, which has room for them. */
static void take(gpur_ingest *ingest, int64_t rows, int64_t frames, gpur_claim *claim)
{
    gpur_staging *const staging = &ingest->staging;
    gpur_staging_block *const block = staging->open;
    claim->block = block;
    claim->rows = block->rows + block->filled * staging->pitch;
    claim->count = rows;
    claim->first_id = ingest->next_id;
    claim->frames = block->frames + block->frames_filled * staging->frame_pitch;
    claim->first_frame = ingest->storage->frame_index->head;
    ingest->next_id += rows;
    ingest->storage->frame_index->head += frames;
    block->filled += rows;
    block->frames_filled += frames;
    block->writing++;
    ingest->writing++;
    ingest->staged += rows;
    if (block->filled == staging->block_rows)
        close_open(staging);
}

gpur_status gpur_ingest_claim(gpur_ingest *ingest, int64_t wanted, int waits, gpur_claim *claim)
{
    const gpur_staging *const staging = &ingest->staging;
    GPUR_TRY(find_room(ingest, 1, staging->row_frames, waits));
    const int64_t room = staging->row_frames > 0 ? 1 : staging->block_rows - staging->open->filled;
    take(ingest, wanted < room ? wanted : room, 0, claim);
    return GPUR_OK;
}

gpur_status gpur_ingest_claim_all(gpur_ingest *ingest, int64_t rows, int64_t frames, int waits, gpur_claim *claim)
{
    assert(rows <= ingest->staging.block_rows && frames <= ingest->staging.block_frames);
    GPUR_TRY(find_room(ingest, rows, frames, waits));
    take(ingest, rows, frames, claim);
    return GPUR_OK;
}

int gpur_ingest_has_room(const gpur_ingest *ingest, int64_t wanted)
{
    const gpur_staging_block *const open = ingest->staging.open;
    if (ingest->flushing > 0)
        return 0;
    return (open && wanted <= ingest->staging.block_rows - open->filled) ||
           wanted <= gpur_staging_room(&ingest->staging);
}

int gpur_ingest_fills_block(const gpur_ingest *ingest, int64_t wanted)
{
    const gpur_staging_block *const open = ingest->staging.open;
    return wanted >= ingest->staging.block_rows - (open ? open->filled : 0);
}

unsigned char *gpur_ingest_claim_frame(gpur_ingest *ingest, const gpur_claim *claim, int64_t *id)
{
    gpur_staging_block *const block = claim->block;
    assert(block->frames_filled < ingest->staging.block_frames);
    *id = ingest->storage->frame_index->head++;
    return block->frames + block->frames_filled++ * ingest->staging.frame_pitch;
}

gpur_status gpur_ingest_commit(gpur_ingest *ingest, const gpur_claim *claim)
{
    claim->block->writing--;
    ingest->writing--;
    ingest->appended += claim->count;
    const gpur_status status = upload_closed(ingest);
    gpur_mutex_notify_all(ingest->storage->window_lock);
    return status;
}

int gpur_ingest_is_empty(const gpur_ingest *ingest)
{
    const gpur_staging_block *const open = ingest->staging.open;
    return ingest->staged == 0 && ingest->writing == 0 && ingest->flushing == 0 && (!open || open->filled == 0);
}

gpur_status gpur_ingest_flush(gpur_ingest *ingest)
{
    ingest->flushing++;
    while (ingest->writing > 0)
        gpur_mutex_wait(ingest->storage->window_lock);
    ingest->flushing--;
    gpur_mutex_notify_all(ingest->storage->window_lock);
    return ingest->staging.open ? upload_block(ingest, ingest->staging.open) : GPUR_OK;
}

gpur_status gpur_ingest_pause(gpur_ingest *ingest)
{
    gpur_staging *const staging = &ingest->staging;
    ingest->paused = 1;
    while (ingest->active_calls > 0)
        gpur_mutex_wait(ingest->storage->window_lock);
    GPUR_TRY(gpur_ingest_flush(ingest));
    gpur_window_publish_all_next(ingest->ring->window);
    if (staging->open) {
        gpur_staging_block_clear(staging->open);
        gpur_queue_push(&staging->spare, staging->open);
        staging->open = NULL;
    }
    return GPUR_OK;
}

void gpur_ingest_resume(gpur_ingest *ingest)
{
    ingest->paused = 0;
    gpur_mutex_notify_all(ingest->storage->window_lock);
}
