/* SPDX-License-Identifier: MIT */
#include "replay/staging.h"

#include <assert.h>
#include <string.h>

gpur_status gpur_staging_build(gpur_staging *staging, gpur_device *device, int32_t count, int64_t block_rows,
                               int64_t pitch)
{
    staging->device = device;
    staging->block_rows = block_rows;
    staging->pitch = pitch;
    GPUR_TRY(gpur_pinned_alloc(device, count * block_rows * pitch, "staging blocks", (void **)&staging->memory));
    for (int32_t i = 0; i < count; i++) {
        gpur_block *const block = &staging->blocks[i];
        block->rows = staging->memory + i * block_rows * pitch;
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

void gpur_queue_push(gpur_block_queue *queue, gpur_block *block)
{
    assert(queue->count < GPUR_MAX_STAGING_BLOCKS);
    queue->blocks[queue->count++] = block;
}

gpur_block *gpur_queue_take(gpur_block_queue *queue, int32_t place)
{
    gpur_block *const block = queue->blocks[place];
    queue->count--;
    memmove(&queue->blocks[place], &queue->blocks[place + 1], (size_t)(queue->count - place) * sizeof(gpur_block *));
    return block;
}

gpur_block *gpur_staging_take_idle(gpur_staging *staging)
{
    gpur_block_queue *const spare = &staging->spare;
    const int32_t newest = spare->count - 1;
    if (newest >= 0 && gpur_event_done(spare->blocks[newest]->copied))
        return gpur_queue_take(spare, newest);
    if (newest >= 0 && gpur_event_done(spare->blocks[0]->copied))
        return gpur_queue_take(spare, 0);
    return NULL;
}

int64_t gpur_staging_room(const gpur_staging *staging)
{
    int64_t rows = staging->open ? staging->block_rows - staging->open->filled : 0;
    for (int32_t i = 0; i < staging->spare.count && gpur_event_done(staging->spare.blocks[i]->copied); i++)
        rows += staging->block_rows;
    return rows;
}
