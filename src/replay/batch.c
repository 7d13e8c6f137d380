/* SPDX-License-Identifier: MIT */
/* What a user sees of a batch. */
#include "base/sized.h"
#include "replay/pool.h"

#include <inttypes.h>
#include <string.h>

int64_t gpur_batch_count(const gpur_batch *batch)
{
    return batch ? batch->count : 0;
}

static gpur_status find_array(const gpur_batch *batch, const char *name, int32_t *array)
{
    GPUR_REQUIRE(batch, "batch is NULL");
    GPUR_REQUIRE(name, "the array's name is NULL; a batch has its fields, \"discount\", \"weight\" and \"id\"");
    for (*array = 0; *array < batch->layout.count; ++*array)
        if (strcmp(batch->layout.arrays[*array].name, name) == 0)
            return GPUR_OK;
    return gpur_fail(GPUR_INVALID_ARGUMENT,
                     "a batch has no array \"%s\"; it has its %d fields, \"discount\", \"weight\" "
                     "and \"id\"",
                     name, (int)batch->pool->schema.count);
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

/* NULL where the schema has no such field. */
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
    GPUR_TRY(gpur_native_check(pool->device, stream, 1));
    GPUR_TRY(gpur_pool_add_reader(batch, stream));
    GPUR_TRY(gpur_stream_wait(pool->reader, batch->filled));
    return gpur_native_wait_stream(stream, pool->reader);
}

gpur_status gpur_batch_read(gpur_batch *batch, const char *name, void *host, int64_t bytes)
{
    int32_t array = 0;
    GPUR_TRY(find_array(batch, name, &array));
    const int64_t wanted = batch->count * batch->layout.arrays[array].bytes;
    GPUR_REQUIRE(host, "host is NULL; it must be %" PRId64 " bytes of memory", wanted);
    GPUR_REQUIRE(bytes == wanted, "bytes is %" PRId64 "; array \"%s\" of %" PRId64 " transitions has %" PRId64, bytes,
                 name, batch->count, wanted);
    GPUR_TRY(gpur_stream_wait(batch->pool->reader, batch->filled));
    GPUR_TRY(gpur_copy(batch->pool->reader, host, gpur_batch_array(batch, array), bytes));
    return gpur_stream_sync(batch->pool->reader);
}
