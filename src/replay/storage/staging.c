/* SPDX-License-Identifier: MIT */
#include "replay/storage/staging.h"

#include <assert.h>
#include <string.h>

static void describe(gpur_staging *staging, const gpur_replay_config *config, const gpur_ring_layout *layout)
{
    staging->block_rows = config->block_rows;
    staging->pitch = layout->rows.pitch;
    staging->block_frames = layout->frame_layout.block_frames;
    staging->frame_pitch = layout->frame_layout.pitch;
    staging->row_frames = layout->frame_layout.frames_per_row;
}

gpur_status gpur_staging_build(gpur_staging *staging, gpur_device *device, const gpur_replay_config *config,
                               const gpur_ring_layout *layout)
{
    staging->device = device;
    describe(staging, config, layout);
    const int64_t row_bytes = staging->block_rows * staging->pitch;
    const int64_t frame_bytes = staging->block_frames * staging->frame_pitch;
    const int64_t count = config->staging_blocks;
    GPUR_TRY(gpur_pinned_alloc(device, count * (row_bytes + frame_bytes), "staging blocks", (void **)&staging->memory));
    for (int32_t i = 0; i < count; i++) {
        gpur_staging_block *const block = &staging->blocks[i];
        block->rows = staging->memory + i * row_bytes;
        block->frames = staging->memory + count * row_bytes + i * frame_bytes;
        GPUR_TRY(gpur_event_create(device, &block->copied));
        gpur_queue_push(&staging->spare, block);
        staging->count++;
    }
    return GPUR_OK;
}

void gpur_staging_destroy(gpur_staging *staging)
{
    for (int32_t i = 0; i < staging->count; i++)
        gpur_event_destroy(staging->blocks[i].copied);
    gpur_pinned_free(staging->device, staging->memory);
}

void gpur_queue_push(gpur_staging_queue *queue, gpur_staging_block *block)
{
    assert(queue->count < GPUR_MAX_STAGING_BLOCKS);
    queue->blocks[queue->count++] = block;
}

gpur_staging_block *gpur_queue_remove(gpur_staging_queue *queue, int32_t index)
{
    gpur_staging_block *const block = queue->blocks[index];
    queue->count--;
    memmove(&queue->blocks[index], &queue->blocks[index + 1],
            (size_t)(queue->count - index) * sizeof(gpur_staging_block *));
    return block;
}

gpur_staging_block *gpur_staging_pop_idle(gpur_staging *staging)
{
    gpur_staging_queue *const spare = &staging->spare;
    const int32_t newest = spare->count - 1;
    if (newest >= 0 && gpur_event_done(spare->blocks[newest]->copied))
        return gpur_queue_remove(spare, newest);
    if (newest >= 0 && gpur_event_done(spare->blocks[0]->copied))
        return gpur_queue_remove(spare, 0);
    return NULL;
}

int gpur_staging_block_has_room(const gpur_staging *staging, const gpur_staging_block *block, int64_t rows,
                                int64_t frames)
{
    return block->filled + rows <= staging->block_rows && block->frames_filled + frames <= staging->block_frames;
}

void gpur_staging_block_clear(gpur_staging_block *block)
{
    block->filled = block->uploaded = 0;
    block->frames_filled = block->frames_uploaded = 0;
}

/* Number of rows that always fit into a block in which `rows` rows and `frames` frames are taken. */
static int64_t sure_rows(const gpur_staging *staging, int64_t rows, int64_t frames)
{
    const int64_t by_rows = staging->block_rows - rows;
    if (staging->row_frames == 0)
        return by_rows;
    const int64_t by_frames = (staging->block_frames - frames) / staging->row_frames;
    return by_rows < by_frames ? by_rows : by_frames;
}

int64_t gpur_staging_block_room(const gpur_staging *staging)
{
    return sure_rows(staging, 0, 0);
}

int64_t gpur_staging_room(const gpur_staging *staging)
{
    int64_t rows = staging->open ? sure_rows(staging, staging->open->filled, staging->open->frames_filled) : 0;
    for (int32_t i = 0; i < staging->spare.count && gpur_event_done(staging->spare.blocks[i]->copied); i++)
        rows += gpur_staging_block_room(staging);
    return rows;
}
