/* SPDX-License-Identifier: MIT */
/* Training on rows in host memory: buffers, device batches, graphs, and the public functions. */
#include "learn/dqn/dqn.h"

#include "replay/finite.h"
#include "replay/view.h"

#include <inttypes.h>
#include <string.h>

static int64_t batch_bytes(const gpur_host_batches *batches)
{
    return batches->batch * batches->row_bytes;
}

static int64_t pinned_bytes(const void *part)
{
    const gpur_host_batches *const batches = part;
    return batches->count * batches->pitch;
}

static gpur_status open(void *part, const gpur_part_context *context)
{
    gpur_host_batches *const batches = part;
    gpur_device *const device = context->device;
    void *pinned = NULL;
    batches->device = device;
    batches->step = context->step;
    batches->count = context->host_batches;
    batches->batch = context->step_config.batch_size;
    batches->row_bytes = gpur_replay_schema(context->replay)->row_bytes;
    batches->pitch = (batch_bytes(batches) + 255) / 256 * 256;
    if (batches->count == 0)
        return GPUR_OK;
    if (pthread_mutex_init(&batches->mutex, NULL) != 0)
        return gpur_fail(GPUR_OUT_OF_MEMORY, "no mutex could be made for the batches in host memory");
    GPUR_TRY(gpur_stream_create(device, &batches->copier));
    for (int32_t i = 0; i < batches->count; i++)
        GPUR_TRY(gpur_event_create(device, &batches->copied[i]));
    GPUR_TRY(gpur_pinned_alloc(device, pinned_bytes(batches), "batches in host memory", &pinned));
    batches->pinned = pinned;
    return GPUR_OK;
}

static void close(void *part)
{
    gpur_host_batches *const batches = part;
    gpur_stream_destroy(batches->copier);
    for (int i = 0; i < GPUR_DEVICE_BATCHES; i++)
        gpur_graph_destroy(batches->device_batches[i].source.train);
    for (int i = 0; i < GPUR_MAX_HOST_BATCHES; i++)
        gpur_event_destroy(batches->copied[i]);
    gpur_pinned_free(batches->device, batches->pinned);
    pthread_mutex_destroy(&batches->mutex);
}

static void assign(void *part, gpur_arena *arena)
{
    gpur_host_batches *const batches = part;
    if (batches->count == 0)
        return;
    batches->window = gpur_arena_alloc(arena, sizeof *batches->window);
    batches->ids = gpur_arena_alloc(arena, batches->batch * (int64_t)sizeof *batches->ids);
    for (int i = 0; i < GPUR_DEVICE_BATCHES; i++)
        batches->device_batches[i].rows = gpur_arena_alloc(arena, batch_bytes(batches));
}

static gpur_status record_block(const gpur_host_batches *batches, gpur_device_batch *block)
{
    const gpur_packed_rows packed = {block->rows, batches->row_bytes, batches->ids, batches->window};
    GPUR_TRY(gpur_batch_source_of_rows(&block->source, batches->step, &batches->step->batch, &packed));
    return gpur_graph_create(batches->device, gpur_train_step_record, &block->source, 1, &block->source.train);
}

/* Copies the constants to the device through the first buffer: no caller has one yet. */
static gpur_status fill_constants(const gpur_host_batches *batches, gpur_stream *stream)
{
    const int64_t bytes = batches->batch * (int64_t)sizeof *batches->ids;
    gpur_window *const window = (gpur_window *)(void *)batches->pinned;
    int64_t *const ids = (int64_t *)(void *)(window + 1);
    *window = (gpur_window){0, 0, batches->batch};
    for (int64_t i = 0; i < batches->batch; i++)
        ids[i] = i;
    gpur_status status = gpur_copy(stream, batches->window, window, sizeof *window);
    if (status == GPUR_OK)
        status = gpur_copy(stream, batches->ids, ids, bytes);
    return gpur_stream_finish(stream, status);
}

static gpur_status start(void *part, gpur_stream *stream)
{
    gpur_host_batches *const batches = part;
    if (batches->count == 0)
        return GPUR_OK;
    GPUR_TRY(fill_constants(batches, stream));
    for (int i = 0; i < GPUR_DEVICE_BATCHES; i++)
        GPUR_TRY(record_block(batches, &batches->device_batches[i]));
    return GPUR_OK;
}

const gpur_part gpur_host_batches_part = {
    .open = open,
    .assign = assign,
    .start = start,
    .close = close,
    .pinned_bytes = pinned_bytes,
};

/* Buffers. */

/* Acquires the next free buffer, round-robin; -1: there is none. */
static int32_t acquire_free(gpur_host_batches *batches)
{
    int32_t found = -1;
    pthread_mutex_lock(&batches->mutex);
    for (int32_t i = 0; i < batches->count && found < 0; i++) {
        const int32_t index = (batches->next + i) % batches->count;
        if (!batches->acquired[index])
            found = index;
    }
    if (found >= 0) {
        batches->acquired[found] = 1;
        batches->next = (found + 1) % batches->count;
    }
    pthread_mutex_unlock(&batches->mutex);
    return found;
}

static void release(gpur_host_batches *batches, int32_t index)
{
    pthread_mutex_lock(&batches->mutex);
    batches->acquired[index] = 0;
    pthread_mutex_unlock(&batches->mutex);
}

static gpur_status acquire(gpur_host_batches *batches, int32_t *index)
{
    *index = acquire_free(batches);
    if (*index < 0)
        return gpur_fail(GPUR_WOULD_BLOCK,
                         "all %" PRId32 " host batches are acquired; gpur_learner_train_host_batch or "
                         "gpur_learner_release_host_batch releases one",
                         batches->count);
    const gpur_status status = gpur_event_sync(batches->copied[*index]);
    if (status != GPUR_OK)
        release(batches, *index);
    return status;
}

static unsigned char *buffer_of(const gpur_host_batches *batches, int32_t index)
{
    return batches->pinned + index * batches->pitch;
}

static int is_acquired(gpur_host_batches *batches, int32_t index)
{
    pthread_mutex_lock(&batches->mutex);
    const int acquired = batches->acquired[index];
    pthread_mutex_unlock(&batches->mutex);
    return acquired;
}

/* Finds the buffer that starts at `given`; -1 if `given` is in no buffer. Refuses an address in a buffer that is not
 * its start, and a buffer that is not acquired. */
static gpur_status find(gpur_host_batches *batches, const void *given, int32_t *index)
{
    const uintptr_t at = (uintptr_t)given, first = (uintptr_t)batches->pinned;
    const int64_t offset = (int64_t)(at - first);
    *index = -1;
    if (at < first || offset >= pinned_bytes(batches))
        return GPUR_OK;
    const int32_t buffer = (int32_t)(offset / batches->pitch);
    GPUR_REQUIRE(offset % batches->pitch == 0,
                 "rows is %" PRId64 " bytes behind the start of host batch %" PRId32 "; it must be the start",
                 offset % batches->pitch, buffer);
    GPUR_REQUIRE(is_acquired(batches, buffer),
                 "rows is host batch %" PRId32
                 ", which was released; gpur_learner_acquire_host_batch acquires it again",
                 buffer);
    *index = buffer;
    return GPUR_OK;
}

static gpur_status acquire_copy(gpur_host_batches *batches, const void *given, int32_t *index)
{
    int on_device = 0;
    GPUR_TRY(gpur_memory_locate(batches->device, given, &on_device));
    GPUR_REQUIRE(!on_device || !gpur_device_get_traits(batches->device)->has_own_memory,
                 "rows is %p, memory of the device; it must be host memory", given);
    GPUR_TRY(acquire(batches, index));
    memcpy(buffer_of(batches, *index), given, (size_t)batch_bytes(batches));
    return GPUR_OK;
}

/* The public functions. */

static gpur_status get_batches(gpur_learner *learner, const char *call, gpur_host_batches **batches)
{
    GPUR_TRY(gpur_learner_require(learner, &gpur_algorithm_dqn, call));
    *batches = &gpur_dqn_of(learner)->host_batches;
    GPUR_REQUIRE((*batches)->count > 0, "the learner was made with host_batches 0; rows in RAM need 1 to %d of them",
                 GPUR_MAX_HOST_BATCHES);
    return GPUR_OK;
}

gpur_status gpur_learner_acquire_host_batch(gpur_learner *learner, void **rows)
{
    gpur_host_batches *batches = NULL;
    int32_t index = 0;
    GPUR_REQUIRE(rows, "rows, which gets the buffer, is NULL");
    *rows = NULL;
    GPUR_TRY(get_batches(learner, "gpur_learner_acquire_host_batch", &batches));
    GPUR_TRY(acquire(batches, &index));
    *rows = buffer_of(batches, index);
    return GPUR_OK;
}

gpur_status gpur_learner_release_host_batch(gpur_learner *learner, void *rows)
{
    gpur_host_batches *batches = NULL;
    int32_t index = 0;
    GPUR_TRY(get_batches(learner, "gpur_learner_release_host_batch", &batches));
    GPUR_REQUIRE(rows, "rows is NULL; it must be a buffer of gpur_learner_acquire_host_batch");
    GPUR_TRY(find(batches, rows, &index));
    GPUR_REQUIRE(index >= 0, "rows is %p, which is none of the host batches", rows);
    release(batches, index);
    return GPUR_OK;
}

static gpur_status check_rows(const gpur_learner *learner, const void *rows)
{
    const gpur_schema *const schema = gpur_replay_schema(learner->replay);
    if (!gpur_replay_settings(learner->replay)->check_finite)
        return GPUR_OK;
    return gpur_check_rows_finite(schema, rows, learner->step->config.batch_size, schema->row_bytes,
                                  GPUR_INVALID_ARGUMENT);
}

/* Requires the consumer lock. */
static gpur_status enqueue(gpur_learner *learner, gpur_stream *stream, gpur_host_batches *batches, int32_t index)
{
    const gpur_device_batch *const to = &batches->device_batches[batches->steps++ % GPUR_DEVICE_BATCHES];
    GPUR_TRY(gpur_copy(batches->copier, to->rows, buffer_of(batches, index), batch_bytes(batches)));
    GPUR_TRY(gpur_event_record(batches->copied[index], batches->copier));
    GPUR_TRY(gpur_stream_wait(stream, batches->copied[index]));
    GPUR_TRY(gpur_graph_launch(to->source.train, stream, 1));
    return gpur_learner_end_launch(learner, stream, 1);
}

/* The launch needs no visible rows: the contents of the replay do not matter. */
static gpur_status train(gpur_learner *learner, gpur_host_batches *batches, const void *rows, int32_t index)
{
    gpur_stream *stream = NULL;
    GPUR_TRY(gpur_learner_check_finite(learner));
    GPUR_TRY(check_rows(learner, rows));
    GPUR_TRY(gpur_learner_begin(learner, &stream));
    return gpur_learner_end(learner, enqueue(learner, stream, batches, index));
}

gpur_status gpur_learner_train_host_batch(gpur_learner *learner, const void *rows)
{
    gpur_host_batches *batches = NULL;
    int32_t index = 0;
    GPUR_TRY(get_batches(learner, "gpur_learner_train_host_batch", &batches));
    GPUR_REQUIRE(rows, "rows is NULL; it must be (batch_size, row_bytes) in host memory");
    GPUR_TRY(find(batches, rows, &index));
    if (index < 0)
        GPUR_TRY(acquire_copy(batches, rows, &index));
    const gpur_status status = train(learner, batches, rows, index);
    release(batches, index);
    return status;
}
