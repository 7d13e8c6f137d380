/* SPDX-License-Identifier: MIT */
#include "learn/host_batches.h"

#include <inttypes.h>
#include <string.h>

static int64_t batch_bytes(const gpur_host_batches *rows)
{
    return rows->batch * rows->row_bytes;
}

static int64_t pinned_bytes(const void *part)
{
    const gpur_host_batches *const rows = part;
    return rows->count * rows->pitch;
}

static gpur_status open(void *part, const gpur_part_context *context)
{
    gpur_host_batches *const rows = part;
    gpur_device *const device = context->device;
    const gpur_learner_config *const config = context->config;
    void *pinned = NULL;
    rows->device = device;
    rows->step = context->step;
    rows->count = config->host_batches;
    rows->batch = config->batch_size;
    rows->row_bytes = gpur_replay_schema(context->replay)->row_bytes;
    rows->pitch = (batch_bytes(rows) + 255) / 256 * 256;
    if (rows->count == 0)
        return GPUR_OK;
    if (pthread_mutex_init(&rows->mutex, NULL) != 0)
        return gpur_fail(GPUR_OUT_OF_MEMORY, "no mutex could be made for the batches in host memory");
    rows->has_mutex = 1;
    GPUR_TRY(gpur_stream_create(device, &rows->copier));
    for (int32_t i = 0; i < rows->count; i++)
        GPUR_TRY(gpur_event_create(device, &rows->copied[i]));
    GPUR_TRY(gpur_pinned_alloc(device, pinned_bytes(rows), "batches in host memory", &pinned));
    rows->pinned = pinned;
    return GPUR_OK;
}

static void close(void *part)
{
    gpur_host_batches *const rows = part;
    gpur_stream_destroy(rows->copier);
    for (int i = 0; i < GPUR_DEVICE_BATCHES; i++)
        gpur_graph_destroy(rows->device_batches[i].source.train);
    for (int i = 0; i < GPUR_MAX_HOST_BATCHES; i++)
        gpur_event_destroy(rows->copied[i]);
    gpur_pinned_free(rows->device, rows->pinned);
    if (rows->has_mutex)
        pthread_mutex_destroy(&rows->mutex);
}

static void assign(void *part, gpur_arena *arena)
{
    gpur_host_batches *const rows = part;
    if (rows->count == 0)
        return;
    rows->window = gpur_arena_alloc(arena, sizeof *rows->window);
    rows->ids = gpur_arena_alloc(arena, rows->batch * (int64_t)sizeof *rows->ids);
    for (int i = 0; i < GPUR_DEVICE_BATCHES; i++)
        rows->device_batches[i].rows = gpur_arena_alloc(arena, batch_bytes(rows));
}

static gpur_status record_block(const gpur_host_batches *rows, gpur_device_batch *block)
{
    const gpur_packed_rows packed = {block->rows, rows->row_bytes, rows->ids, rows->window};
    GPUR_TRY(gpur_batch_source_of_rows(&block->source, rows->step, &packed));
    return gpur_graph_create(rows->device, gpur_train_step_record, &block->source, 1, &block->source.train);
}

/* Copies the constants to the device through the first buffer: no caller has one yet. Waits even after a failure,
 * because an enqueued copy reads the buffer. */
static gpur_status fill_constants(const gpur_host_batches *rows, gpur_stream *stream)
{
    const int64_t bytes = rows->batch * (int64_t)sizeof *rows->ids;
    gpur_window *const window = (gpur_window *)(void *)rows->pinned;
    int64_t *const ids = (int64_t *)(void *)(window + 1);
    *window = (gpur_window){0, 0, rows->batch};
    for (int64_t i = 0; i < rows->batch; i++)
        ids[i] = i;
    gpur_status status = gpur_copy(stream, rows->window, window, sizeof *window);
    if (status == GPUR_OK)
        status = gpur_copy(stream, rows->ids, ids, bytes);
    const gpur_status done = gpur_stream_sync(stream);
    return status != GPUR_OK ? status : done;
}

static gpur_status start(void *part, gpur_stream *stream)
{
    gpur_host_batches *const rows = part;
    if (rows->count == 0)
        return GPUR_OK;
    GPUR_TRY(fill_constants(rows, stream));
    for (int i = 0; i < GPUR_DEVICE_BATCHES; i++)
        GPUR_TRY(record_block(rows, &rows->device_batches[i]));
    return GPUR_OK;
}

const gpur_part gpur_rows_part = {
    .open = open,
    .assign = assign,
    .start = start,
    .close = close,
    .pinned_bytes = pinned_bytes,
};

/* Acquires a free buffer; -1 if there is none. */
static int32_t acquire_free(gpur_host_batches *rows)
{
    int32_t found = -1;
    pthread_mutex_lock(&rows->mutex);
    for (int32_t i = 0; i < rows->count && found < 0; i++) {
        const int32_t index = (rows->next + i) % rows->count;
        if (!rows->acquired[index])
            found = index;
    }
    if (found >= 0) {
        rows->acquired[found] = 1;
        rows->next = (found + 1) % rows->count;
    }
    pthread_mutex_unlock(&rows->mutex);
    return found;
}

gpur_status gpur_host_batches_acquire(gpur_host_batches *rows, int32_t *index)
{
    *index = acquire_free(rows);
    if (*index < 0)
        return gpur_fail(GPUR_WOULD_BLOCK,
                         "all %" PRId32 " host batches are acquired; gpur_learner_train_host_batch or "
                         "gpur_learner_release_host_batch releases one",
                         rows->count);
    const gpur_status status = gpur_event_sync(rows->copied[*index]);
    if (status != GPUR_OK)
        gpur_host_batches_release(rows, *index);
    return status;
}

void gpur_host_batches_release(gpur_host_batches *rows, int32_t index)
{
    pthread_mutex_lock(&rows->mutex);
    rows->acquired[index] = 0;
    pthread_mutex_unlock(&rows->mutex);
}

void *gpur_host_batches_buffer(const gpur_host_batches *rows, int32_t index)
{
    return rows->pinned + index * rows->pitch;
}

static int is_out(gpur_host_batches *rows, int32_t index)
{
    pthread_mutex_lock(&rows->mutex);
    const int out = rows->acquired[index];
    pthread_mutex_unlock(&rows->mutex);
    return out;
}

gpur_status gpur_host_batches_find(gpur_host_batches *rows, const void *given, int32_t *index)
{
    const uintptr_t at = (uintptr_t)given, first = (uintptr_t)rows->pinned;
    const int64_t offset = (int64_t)(at - first);
    *index = -1;
    if (at < first || offset >= pinned_bytes(rows))
        return GPUR_OK;
    const int32_t buffer = (int32_t)(offset / rows->pitch);
    GPUR_REQUIRE(offset % rows->pitch == 0,
                 "rows is %" PRId64 " bytes behind the start of host batch %" PRId32 "; it must be the start",
                 offset % rows->pitch, buffer);
    GPUR_REQUIRE(is_out(rows, buffer),
                 "rows is host batch %" PRId32
                 ", which was released; gpur_learner_acquire_host_batch acquires it again",
                 buffer);
    *index = buffer;
    return GPUR_OK;
}

gpur_status gpur_host_batches_acquire_copy(gpur_host_batches *rows, const void *given, int32_t *index)
{
    int on_device = 0;
    GPUR_TRY(gpur_memory_locate(rows->device, given, &on_device));
    GPUR_REQUIRE(!on_device || !gpur_device_get_traits(rows->device)->has_own_memory,
                 "rows is %p, memory of the device; it must be host memory", given);
    GPUR_TRY(gpur_host_batches_acquire(rows, index));
    memcpy(gpur_host_batches_buffer(rows, *index), given, (size_t)batch_bytes(rows));
    return GPUR_OK;
}

gpur_status gpur_host_batches_upload(gpur_host_batches *rows, int32_t index, gpur_stream *stream, gpur_graph **train)
{
    const gpur_device_batch *const to = &rows->device_batches[rows->steps++ % GPUR_DEVICE_BATCHES];
    GPUR_TRY(gpur_copy(rows->copier, to->rows, gpur_host_batches_buffer(rows, index), batch_bytes(rows)));
    GPUR_TRY(gpur_event_record(rows->copied[index], rows->copier));
    GPUR_TRY(gpur_stream_wait(stream, rows->copied[index]));
    *train = to->source.train;
    return GPUR_OK;
}
