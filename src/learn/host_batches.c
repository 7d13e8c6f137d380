/* SPDX-License-Identifier: MIT */
#include "learn/host_batches.h"

#include <inttypes.h>
#include <string.h>

static int64_t batch_bytes(const gpur_rows *rows)
{
    return rows->batch * rows->row_bytes;
}

int64_t gpur_rows_pinned_bytes(const gpur_rows *rows)
{
    return rows->count * rows->pitch;
}

gpur_status gpur_rows_open(gpur_rows *rows, gpur_device *device, const gpur_learner_config *config,
                           const gpur_schema *schema)
{
    void *pinned = NULL;
    rows->device = device;
    rows->count = config->host_batches;
    rows->batch = config->batch_size;
    rows->row_bytes = schema->row_bytes;
    rows->pitch = (batch_bytes(rows) + 255) / 256 * 256;
    if (rows->count == 0)
        return GPUR_OK;
    if (pthread_mutex_init(&rows->mutex, NULL) != 0)
        return gpur_fail(GPUR_OUT_OF_MEMORY, "no mutex could be made for the batches in host memory");
    rows->has_mutex = 1;
    GPUR_TRY(gpur_stream_create(device, &rows->copier));
    for (int32_t i = 0; i < rows->count; i++)
        GPUR_TRY(gpur_event_create(device, &rows->copied[i]));
    GPUR_TRY(gpur_pinned_alloc(device, gpur_rows_pinned_bytes(rows), "batches in host memory", &pinned));
    rows->pinned = pinned;
    return GPUR_OK;
}

void gpur_rows_close(gpur_rows *rows)
{
    gpur_stream_destroy(rows->copier);
    for (int i = 0; i < GPUR_ROW_BLOCKS; i++)
        gpur_recording_destroy(rows->block[i].train);
    for (int i = 0; i < GPUR_MAX_HOST_BATCHES; i++)
        gpur_event_destroy(rows->copied[i]);
    gpur_pinned_free(rows->device, rows->pinned);
    if (rows->has_mutex)
        pthread_mutex_destroy(&rows->mutex);
}

void gpur_rows_place(gpur_rows *rows, gpur_arena *arena)
{
    if (rows->count == 0)
        return;
    rows->window = gpur_arena_take(arena, sizeof *rows->window);
    rows->ids = gpur_arena_take(arena, rows->batch * (int64_t)sizeof *rows->ids);
    for (int i = 0; i < GPUR_ROW_BLOCKS; i++)
        rows->block[i].rows = gpur_arena_take(arena, batch_bytes(rows));
}

/* Rows of the ring start at multiples of 64 bytes, packed rows only at multiples of their size: copies that were
 * planned in units of 16 bytes may need smaller ones. */
static void fit_units(gpur_gather_args *gather)
{
    gather->units = 0;
    for (int32_t i = 0; i < gather->copy_count; i++) {
        gpur_field_copy *const copy = &gather->copies[i];
        for (; gather->pitch % (1 << copy->shift) != 0; copy->shift--)
            copy->units *= 2;
        copy->first_unit = gather->units;
        gather->units += copy->units;
    }
}

/* Creates the graph of a device batch. The batch serves as a ring of B rows, whose ids 0 to B - 1 are gathered. */
static gpur_status record_block(gpur_rows *rows, gpur_row_block *block, const gpur_step *step)
{
    gpur_gather_args *const gather = &block->context.gather;
    block->context.step = step;
    *gather = step->brought;
    gather->window = rows->window;
    gather->ids = rows->ids;
    gather->ring = block->rows;
    gather->pitch = rows->row_bytes;
    gather->capacity = rows->batch;
    fit_units(gather);
    return gpur_recording_create(rows->device, gpur_step_record_rows, &block->context, 1, &block->train);
}

static gpur_status fill_constants(gpur_rows *rows, gpur_stream *stream, int64_t *scratch)
{
    const gpur_window window = {0, 0, rows->batch};
    for (int64_t i = 0; i < rows->batch; i++)
        scratch[i] = i;
    GPUR_TRY(gpur_copy(stream, rows->window, &window, sizeof window));
    GPUR_TRY(gpur_copy(stream, rows->ids, scratch, rows->batch * (int64_t)sizeof *scratch));
    return gpur_stream_sync(stream);
}

gpur_status gpur_rows_connect(gpur_rows *rows, const gpur_step *step, gpur_stream *stream, int64_t *scratch)
{
    if (rows->count == 0)
        return GPUR_OK;
    GPUR_TRY(fill_constants(rows, stream, scratch));
    for (int i = 0; i < GPUR_ROW_BLOCKS; i++)
        GPUR_TRY(record_block(rows, &rows->block[i], step));
    return GPUR_OK;
}

/* Acquires a free buffer; -1 if there is none. */
static int32_t take_free(gpur_rows *rows)
{
    int32_t found = -1;
    pthread_mutex_lock(&rows->mutex);
    for (int32_t i = 0; i < rows->count && found < 0; i++) {
        const int32_t index = (rows->next + i) % rows->count;
        if (!rows->is_out[index])
            found = index;
    }
    if (found >= 0) {
        rows->is_out[found] = 1;
        rows->next = (found + 1) % rows->count;
    }
    pthread_mutex_unlock(&rows->mutex);
    return found;
}

gpur_status gpur_rows_take(gpur_rows *rows, int32_t *index)
{
    *index = take_free(rows);
    if (*index < 0)
        return gpur_fail(GPUR_WOULD_BLOCK,
                         "all %" PRId32 " host batches are out; gpur_learner_train_rows or "
                         "gpur_learner_return_rows gives one back",
                         rows->count);
    const gpur_status status = gpur_event_sync(rows->copied[*index]);
    if (status != GPUR_OK)
        gpur_rows_give(rows, *index);
    return status;
}

void gpur_rows_give(gpur_rows *rows, int32_t index)
{
    pthread_mutex_lock(&rows->mutex);
    rows->is_out[index] = 0;
    pthread_mutex_unlock(&rows->mutex);
}

void *gpur_rows_buffer(const gpur_rows *rows, int32_t index)
{
    return rows->pinned + index * rows->pitch;
}

static int is_out(gpur_rows *rows, int32_t index)
{
    pthread_mutex_lock(&rows->mutex);
    const int out = rows->is_out[index];
    pthread_mutex_unlock(&rows->mutex);
    return out;
}

gpur_status gpur_rows_find(gpur_rows *rows, const void *given, int32_t *index)
{
    const uintptr_t at = (uintptr_t)given, first = (uintptr_t)rows->pinned;
    const int64_t offset = (int64_t)(at - first);
    *index = -1;
    if (at < first || offset >= gpur_rows_pinned_bytes(rows))
        return GPUR_OK;
    const int32_t buffer = (int32_t)(offset / rows->pitch);
    GPUR_REQUIRE(offset % rows->pitch == 0,
                 "rows is %" PRId64 " bytes behind the start of host batch %" PRId32 "; it must be the start",
                 offset % rows->pitch, buffer);
    GPUR_REQUIRE(is_out(rows, buffer),
                 "rows is host batch %" PRId32 ", which was given back; gpur_learner_get_rows hands it out again",
                 buffer);
    *index = buffer;
    return GPUR_OK;
}

gpur_status gpur_rows_copy(gpur_rows *rows, const void *given, int32_t *index)
{
    int on_device = 0;
    GPUR_TRY(gpur_memory_locate(rows->device, given, &on_device));
    GPUR_REQUIRE(!on_device || !gpur_device_is_cuda(rows->device),
                 "rows is %p, memory of the device; it must be host memory", given);
    GPUR_TRY(gpur_rows_take(rows, index));
    memcpy(gpur_rows_buffer(rows, *index), given, (size_t)batch_bytes(rows));
    return GPUR_OK;
}

gpur_status gpur_rows_bring(gpur_rows *rows, int32_t index, gpur_stream *stream, gpur_recording **train)
{
    const gpur_row_block *const to = &rows->block[rows->steps++ % GPUR_ROW_BLOCKS];
    GPUR_TRY(gpur_copy(rows->copier, to->rows, gpur_rows_buffer(rows, index), batch_bytes(rows)));
    GPUR_TRY(gpur_event_record(rows->copied[index], rows->copier));
    GPUR_TRY(gpur_stream_wait(stream, rows->copied[index]));
    *train = to->train;
    return GPUR_OK;
}
