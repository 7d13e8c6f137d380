/* SPDX-License-Identifier: MIT */
#include "replay/sampler/batch.h"

#include "base/red_zone.h"
#include "base/sized.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { SMALLEST_BATCH = 64, SMALLEST_BYTES = 1 << 20, ARRAY_ALIGNMENT = 256 };

/* Appends `bytes` bytes to the layout and returns their offset. */
static int64_t add_bytes(gpur_batch_layout *layout, int64_t bytes)
{
    const int64_t at = layout->bytes;
    layout->bytes += (bytes + ARRAY_ALIGNMENT - 1) / ARRAY_ALIGNMENT * ARRAY_ALIGNMENT + GPUR_RED_ZONE;
    return at;
}

static int32_t add_array(gpur_batch_layout *layout, gpur_field_info info, int64_t rows)
{
    info.offset = add_bytes(layout, info.bytes * rows);
    layout->arrays[layout->count] = info;
    return layout->count++;
}

static int32_t add_number(gpur_batch_layout *layout, const char *name, int32_t dtype, int64_t rows)
{
    gpur_field_info info = {.size = sizeof info, .dtype = dtype, .bytes = gpur_dtype_bytes(dtype)};
    snprintf(info.name, sizeof info.name, "%s", name);
    return add_array(layout, info, rows);
}

gpur_batch_layout gpur_batch_layout_of(const gpur_schema *schema, gpur_batch_extent extent, int64_t rows)
{
    gpur_batch_layout layout = {0};
    for (int32_t i = 0; i < schema->count; i++)
        add_array(&layout, schema->fields[i], rows);
    layout.discount = gpur_schema_find(schema, "discount");
    if (layout.discount < 0)
        layout.discount = add_number(&layout, "discount", GPUR_FLOAT32, rows);
    layout.weight = add_number(&layout, "weight", GPUR_FLOAT32, rows);
    layout.id = add_number(&layout, "id", GPUR_INT64, rows);
    layout.mask = layout.is_first = layout.relabeled = -1;
    if (gpur_schema_has_sequences(schema)) {
        layout.mask = add_number(&layout, "mask", GPUR_BOOL, rows);
        layout.is_first = add_number(&layout, "is_first", GPUR_BOOL, rows);
    }
    if (extent.has_hindsight)
        layout.relabeled = add_number(&layout, "relabeled", GPUR_BOOL, rows);
    layout.links = add_bytes(&layout, rows * extent.links * (int64_t)sizeof(uint32_t));
    return layout;
}

static gpur_status pool_build(gpur_pool *pool)
{
    if (pthread_mutex_init(&pool->lock, NULL) != 0)
        return gpur_fail(GPUR_OUT_OF_MEMORY, "no lock for a pool of batches: the system has no more of them");
    GPUR_TRY(gpur_stream_create(pool->device, &pool->read_stream));
    const int returns = gpur_device_get_traits(pool->device)->has_native_streams;
    return returns ? gpur_stream_create(pool->device, &pool->release_stream) : GPUR_OK;
}

static void batch_destroy(gpur_batch *batch)
{
    gpur_device *const device = batch->pool->device;
    gpur_event_destroy(batch->filled);
    gpur_event_destroy(batch->reads_done);
    gpur_memory_free(device, batch->memory);
    gpur_host_free(device, batch, sizeof *batch);
}

static void pool_destroy(gpur_pool *pool)
{
    gpur_device *const device = pool->device;
    gpur_stream_destroy(pool->release_stream);
    gpur_stream_destroy(pool->read_stream);
    pthread_mutex_destroy(&pool->lock);
    gpur_host_free(device, pool, sizeof *pool);
    gpur_device_release(device);
}

gpur_status gpur_pool_create(gpur_device *device, const gpur_schema *schema, gpur_batch_extent extent,
                             int64_t max_batch, gpur_pool **out)
{
    gpur_pool *const pool = gpur_host_alloc(device, sizeof *pool);
    if (!pool)
        return gpur_fail(GPUR_OUT_OF_MEMORY, "no memory for a pool of batches of %zu bytes", sizeof *pool);
    pool->device = device;
    pool->schema = *schema;
    pool->extent = extent;
    pool->max_batch = max_batch;
    gpur_device_retain(device);
    const gpur_status status = pool_build(pool);
    if (status != GPUR_OK) {
        pool_destroy(pool);
        return status;
    }
    *out = pool;
    return GPUR_OK;
}

/* Destroys the batches of a list, and releases the lock meanwhile, so more batches may be released. gpur_pool_close
 * therefore sets `closed` only when both lists are empty; from then on the last release destroys the pool. */
static void destroy_all(gpur_pool *pool, gpur_batch **list)
{
    while (*list) {
        gpur_batch *const batch = *list;
        *list = batch->next;
        pthread_mutex_unlock(&pool->lock);
        batch_destroy(batch);
        pthread_mutex_lock(&pool->lock);
    }
}

void gpur_pool_close(gpur_pool *pool)
{
    if (!pool)
        return;
    pthread_mutex_lock(&pool->lock);
    while (pool->idle || pool->capture_pending) {
        destroy_all(pool, &pool->idle);
        destroy_all(pool, &pool->capture_pending);
    }
    pool->closed = 1;
    const int is_last = pool->alive == 0;
    pthread_mutex_unlock(&pool->lock);
    if (is_last)
        pool_destroy(pool);
}

/* Rows to allocate for a batch of `count` rows: a power of two, so that batches of similar sizes share memory, and
 * SMALLEST_BATCH or more, unless so many rows take more than SMALLEST_BYTES. */
static int64_t rows_for(const gpur_pool *pool, int64_t count)
{
    int64_t rows = SMALLEST_BATCH;
    while (rows > 1 && rows * pool->schema.row_bytes > SMALLEST_BYTES)
        rows /= 2;
    while (rows < count)
        rows *= 2;
    return rows < pool->max_batch ? rows : pool->max_batch;
}

/* Makes the padding from the end of each array to the next one a red zone. */
static void set_red_zones(const gpur_batch *batch)
{
    const gpur_batch_layout *const l = &batch->layout;
    for (int32_t i = 0; GPUR_RED_ZONE > 0 && i < l->count; i++) {
        const int64_t end = l->arrays[i].offset + l->arrays[i].bytes * batch->rows;
        const int64_t next = i + 1 < l->count ? l->arrays[i + 1].offset : l->links;
        gpur_red_zone_set(batch->memory + end, next - end);
    }
}

static gpur_status batch_build(gpur_batch *batch, gpur_pool *pool, int64_t rows)
{
    void *memory = NULL;
    batch->pool = pool;
    batch->rows = rows;
    batch->layout = gpur_batch_layout_of(&pool->schema, pool->extent, rows);
    GPUR_TRY(gpur_memory_alloc(pool->device, batch->layout.bytes, "a batch", &memory));
    batch->memory = memory;
    set_red_zones(batch);
    GPUR_TRY(gpur_event_create(pool->device, &batch->filled));
    return gpur_event_create(pool->device, &batch->reads_done);
}

static gpur_status batch_create(gpur_pool *pool, int64_t rows, gpur_batch **out)
{
    gpur_batch *const batch = gpur_host_alloc(pool->device, sizeof *batch);
    if (!batch)
        return gpur_fail(GPUR_OUT_OF_MEMORY, "no memory for a batch handle of %zu bytes", sizeof *batch);
    batch->pool = pool;
    const gpur_status status = batch_build(batch, pool, rows);
    if (status != GPUR_OK) {
        batch_destroy(batch);
        return status;
    }
    *out = batch;
    return GPUR_OK;
}

/* Work on the callers' streams may still read the batch: records an event after that work. GPUR_WOULD_BLOCK: one of the
 * streams is being captured into a graph and cannot be waited for before the capture ends. The list of readers is
 * cleared only if no stream fails. */
static gpur_status mark_returned(gpur_batch *batch)
{
    if (batch->reader_count == 0)
        return GPUR_OK;
    for (int32_t i = 0; i < batch->reader_count; i++)
        GPUR_TRY(gpur_stream_wait_native(batch->pool->release_stream, batch->readers[i]));
    GPUR_TRY(gpur_event_record(batch->reads_done, batch->pool->release_stream));
    batch->reader_count = 0;
    batch->pending_reads = 1;
    return GPUR_OK;
}

static void push_batch(gpur_batch **list, gpur_batch *batch)
{
    batch->next = *list;
    *list = batch;
}

/* Makes the batches that were released during a capture idle, if it has ended. Any other failure is the device's; the
 * next call that returns a status reports it, and the batch is destroyed. */
static void retry_captured(gpur_pool *pool)
{
    for (gpur_batch **link = &pool->capture_pending; *link;) {
        gpur_batch *const batch = *link;
        const gpur_status status = mark_returned(batch);
        if (status == GPUR_WOULD_BLOCK) {
            link = &batch->next;
            continue;
        }
        *link = batch->next;
        if (status == GPUR_OK)
            push_batch(&pool->idle, batch);
        else
            batch_destroy(batch);
    }
}

/* Removes the smallest idle batch that is large enough; among equals the one released last, whose memory may still be
 * in a cache. */
static gpur_batch *take_idle(gpur_pool *pool, int64_t count)
{
    gpur_batch **best = NULL;
    for (gpur_batch **at = &pool->idle; *at; at = &(*at)->next)
        if ((*at)->rows >= count && (!best || (*at)->rows < (*best)->rows))
            best = at;
    if (!best)
        return NULL;
    gpur_batch *const batch = *best;
    *best = batch->next;
    return batch;
}

/* Frees one idle batch, after waiting for the last work on its memory. */
static gpur_status free_idle(gpur_pool *pool)
{
    gpur_batch *const idle = pool->idle;
    GPUR_TRY(gpur_event_sync(idle->filled));
    if (idle->pending_reads)
        GPUR_TRY(gpur_event_sync(idle->reads_done));
    pool->idle = idle->next;
    batch_destroy(idle);
    return GPUR_OK;
}

/* Allocates a batch in place of an idle one that is too small, so that there are never more batches than were in use at
 * the same time. */
static gpur_status create_in_place_of_idle(gpur_pool *pool, int64_t count, gpur_batch **batch)
{
    if (pool->idle)
        GPUR_TRY(free_idle(pool));
    GPUR_TRY(batch_create(pool, rows_for(pool, count), batch));
    pool->made++;
    return GPUR_OK;
}

static gpur_status acquire_or_create(gpur_pool *pool, int64_t count, gpur_batch **batch)
{
    pthread_mutex_lock(&pool->lock);
    retry_captured(pool);
    *batch = take_idle(pool, count);
    const gpur_status status = *batch ? GPUR_OK : create_in_place_of_idle(pool, count, batch);
    pool->alive += status == GPUR_OK;
    pthread_mutex_unlock(&pool->lock);
    return status;
}

static gpur_status wait_for_readers(gpur_batch *batch, gpur_stream *stream)
{
    if (!batch->pending_reads)
        return GPUR_OK;
    batch->pending_reads = 0;
    return gpur_stream_wait(stream, batch->reads_done);
}

/* Gives the batch to the caller, with one reference. */
static gpur_status finish_acquire(gpur_batch *batch, int64_t count, gpur_stream *stream, gpur_batch **out)
{
    batch->count = count;
    batch->length = 0;
    atomic_store_explicit(&batch->references, 1, memory_order_relaxed); /* no other thread has it yet */
    const gpur_status status = wait_for_readers(batch, stream);
    if (status != GPUR_OK) {
        gpur_batch_release(batch);
        return status;
    }
    *out = batch;
    return GPUR_OK;
}

gpur_status gpur_pool_acquire(gpur_pool *pool, int64_t count, gpur_stream *stream, gpur_batch **out)
{
    gpur_batch *batch = NULL;
    GPUR_TRY(acquire_or_create(pool, count, &batch));
    return finish_acquire(batch, count, stream, out);
}

gpur_status gpur_pool_acquire_idle(gpur_pool *pool, int64_t count, gpur_stream *stream, gpur_batch **out)
{
    pthread_mutex_lock(&pool->lock);
    retry_captured(pool);
    gpur_batch *const batch = take_idle(pool, count);
    pool->alive += batch != NULL;
    pthread_mutex_unlock(&pool->lock);
    *out = NULL;
    return batch ? finish_acquire(batch, count, stream, out) : GPUR_OK;
}

void gpur_pool_count(gpur_pool *pool, int64_t *alive, int64_t *made)
{
    pthread_mutex_lock(&pool->lock);
    *alive = pool->alive;
    *made = pool->made;
    pthread_mutex_unlock(&pool->lock);
}

void gpur_batch_retain(gpur_batch *batch)
{
    if (batch)
        atomic_fetch_add(&batch->references, 1);
}

static gpur_status record_reader(gpur_batch *batch, void *native)
{
    for (int32_t i = 0; i < batch->reader_count; i++)
        if (batch->readers[i] == native)
            return GPUR_OK;
    GPUR_REQUIRE(batch->reader_count < GPUR_MAX_READERS, "stream %p is one too many; a batch may be read on %d streams",
                 native, GPUR_MAX_READERS);
    batch->readers[batch->reader_count++] = native;
    return GPUR_OK;
}

gpur_status gpur_pool_add_reader(gpur_batch *batch, void *native)
{
    pthread_mutex_lock(&batch->pool->lock);
    const gpur_status status = record_reader(batch, native);
    pthread_mutex_unlock(&batch->pool->lock);
    return status;
}

gpur_status gpur_pool_reuse(gpur_batch *batch, gpur_stream *stream)
{
    pthread_mutex_lock(&batch->pool->lock);
    const gpur_status status = mark_returned(batch);
    pthread_mutex_unlock(&batch->pool->lock);
    if (status == GPUR_WOULD_BLOCK || status == GPUR_INVALID_ARGUMENT)
        return gpur_fail(
            GPUR_WOULD_BLOCK,
            "a stream that may read the batch is being captured, or is gone; release it and sample another");
    GPUR_TRY(status);
    return wait_for_readers(batch, stream);
}

void gpur_batch_release(gpur_batch *batch)
{
    if (!batch || atomic_fetch_sub(&batch->references, 1) != 1)
        return;
    gpur_pool *const pool = batch->pool;
    pthread_mutex_lock(&pool->lock);
    const gpur_status status = mark_returned(batch);
    if (status == GPUR_OK && !pool->closed) {
        push_batch(&pool->idle, batch);
    } else if (status == GPUR_WOULD_BLOCK && !pool->closed) {
        push_batch(&pool->capture_pending, batch);
    } else { /* first destroyed, then counted: destroying needs the pool and the device */
        pthread_mutex_unlock(&pool->lock);
        batch_destroy(batch);
        pthread_mutex_lock(&pool->lock);
    }
    const int is_last = --pool->alive == 0 && pool->closed;
    pthread_mutex_unlock(&pool->lock);
    if (is_last)
        pool_destroy(pool);
}

/* The public functions of a batch. */

int64_t gpur_batch_count(const gpur_batch *batch)
{
    return batch ? batch->count : 0;
}

static int is_filled(const gpur_batch *batch, int32_t array)
{
    if (array == batch->layout.relabeled)
        return batch->length == 0;
    return batch->length > 0 || (array != batch->layout.mask && array != batch->layout.is_first);
}

static gpur_status find_array(const gpur_batch *batch, const char *name, int32_t *array)
{
    GPUR_REQUIRE(batch, "batch is NULL");
    GPUR_REQUIRE(name, "the array's name is NULL; a batch has its fields, \"discount\", \"weight\" and \"id\"");
    for (*array = 0; *array < batch->layout.count; ++*array)
        if (strcmp(batch->layout.arrays[*array].name, name) == 0 && is_filled(batch, *array))
            return GPUR_OK;
    return gpur_fail(GPUR_INVALID_ARGUMENT,
                     "a batch%s has no array \"%s\"; it has its %d fields, \"discount\", \"weight\" and \"id\"%s",
                     batch->length > 0 ? " of sequences" : "", name, (int)batch->pool->schema.count,
                     batch->length > 0 ? ", \"mask\" and \"is_first\"" : "");
}

gpur_status gpur_batch_get_array(gpur_batch *batch, const char *name, void **device_memory, gpur_field_info *given)
{
    int32_t array = 0;
    GPUR_TRY(find_array(batch, name, &array));
    GPUR_REQUIRE(device_memory, "device_memory is NULL; it must be where the address goes");
    if (given) {
        gpur_field_info info = batch->layout.arrays[array];
        info.offset = 0;
        GPUR_TRY(gpur_sized_write(given, &info, sizeof info, "gpur_field_info"));
    }
    *device_memory = gpur_batch_array(batch, array);
    return GPUR_OK;
}

/* NULL if the schema has no such field. */
static void *field_of(const gpur_batch *batch, const char *name)
{
    const int32_t field = gpur_schema_find(&batch->pool->schema, name);
    return field < 0 ? NULL : gpur_batch_array(batch, field);
}

gpur_status gpur_batch_get_view(gpur_batch *batch, gpur_batch_view *given)
{
    GPUR_REQUIRE(batch, "batch is NULL");
    const gpur_batch_view view = {
        .size = sizeof view,
        .count = batch->count,
        .obs = field_of(batch, "obs"),
        .action = field_of(batch, "action"),
        .reward = field_of(batch, "reward"),
        .next_obs = field_of(batch, "next_obs"),
        .terminated = field_of(batch, "terminated"),
        .truncated = field_of(batch, "truncated"),
        .discount = gpur_batch_array(batch, batch->layout.discount),
        .weight = gpur_batch_array(batch, batch->layout.weight),
        .id = gpur_batch_array(batch, batch->layout.id),
    };
    return gpur_sized_write(given, &view, sizeof view, "gpur_batch_view");
}

gpur_status gpur_batch_sync(gpur_batch *batch)
{
    GPUR_REQUIRE(batch, "batch is NULL");
    return gpur_event_sync(batch->filled);
}

gpur_status gpur_batch_wait(gpur_batch *batch, void *stream)
{
    GPUR_REQUIRE(batch, "batch is NULL");
    gpur_pool *const pool = batch->pool;
    if (!stream)
        return gpur_batch_sync(batch);
    GPUR_TRY(gpur_native_stream_check(pool->device, stream, 1));
    GPUR_TRY(gpur_pool_add_reader(batch, stream));
    GPUR_TRY(gpur_stream_wait(pool->read_stream, batch->filled));
    return gpur_native_wait_stream(stream, pool->read_stream);
}

gpur_status gpur_batch_read(gpur_batch *batch, const char *name, void *host, int64_t bytes)
{
    int32_t array = 0;
    GPUR_TRY(find_array(batch, name, &array));
    const int64_t wanted = batch->count * batch->layout.arrays[array].bytes;
    GPUR_REQUIRE(host, "host is NULL; it must be %" PRId64 " bytes of memory", wanted);
    GPUR_REQUIRE(bytes == wanted, "bytes is %" PRId64 "; array \"%s\" of %" PRId64 " transitions has %" PRId64, bytes,
                 name, batch->count, wanted);
    GPUR_TRY(gpur_stream_wait(batch->pool->read_stream, batch->filled));
    GPUR_TRY(gpur_copy(batch->pool->read_stream, host, gpur_batch_array(batch, array), bytes));
    return gpur_stream_sync(batch->pool->read_stream);
}
