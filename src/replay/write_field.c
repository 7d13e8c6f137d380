/* SPDX-License-Identifier: MIT */
/* gpur_replay_write_field. */
#include "gpureplay/write_field.h"

#include "replay/caller_arrays.h"
#include "replay/finite.h"
#include "replay/replay.h"
#include "replay/storage/copies.h"
#include "replay/view.h"

#include <inttypes.h>
#include <string.h>

typedef struct write_request {
    gpur_replay *replay;
    const gpur_field_info *field;
    int32_t index; /* of the field in the schema */
    int64_t count;
    const int64_t *ids;
    const void *values;
    void *native; /* the caller's stream, for arrays on the device */
    int on_device;
    gpur_stream *stream;
} write_request;

static int is_field(const write_request *r, const char *name)
{
    return strcmp(r->field->name, name) == 0;
}

/* Refuses fields that the library fills in, or that must agree with others. */
static gpur_status check_field(const write_request *r)
{
    const gpur_schema *const schema = &r->replay->schema;
    const char *const other = is_field(r, "terminated") ? "discount" : is_field(r, "discount") ? "terminated" : NULL;
    GPUR_REQUIRE(!is_field(r, "previous"), "the field \"previous\" links transitions; it cannot be written");
    GPUR_REQUIRE(
        !r->replay->config.prioritized || !is_field(r, "priority"),
        "the field \"priority\" has the first priorities of transitions; gpur_replay_update_priorities sets new "
        "ones");
    GPUR_REQUIRE(!other || gpur_schema_find(schema, other) < 0,
                 "the field \"%s\" must agree with \"%s\"; it cannot be written where there are both", r->field->name,
                 other);
    GPUR_REQUIRE(r->replay->layout.stored[r->index] >= 0,
                 "the field \"%s\" is made of frames, which transitions share; it can be written with layout "
                 "GPUR_LAYOUT_ROWS alone",
                 r->field->name);
    return GPUR_OK;
}

static gpur_status check(const write_request *r)
{
    gpur_replay *const replay = r->replay;
    GPUR_TRY(check_field(r));
    GPUR_REQUIRE(r->count >= 0 && r->count <= replay->config.max_batch,
                 "count is %" PRId64 "; it must be 0 to max_batch = %" PRId64, r->count, replay->config.max_batch);
    GPUR_REQUIRE((r->ids && r->values) || r->count == 0, "%s is NULL; it must be of %" PRId64 " transitions",
                 r->ids ? "values" : "ids", r->count);
    return gpur_native_stream_check(replay->device, r->native, 0);
}

/* What host memory has must be what appends take. */
static gpur_status check_values(const write_request *r)
{
    const int32_t actions = is_field(r, "action") ? atomic_load(&r->replay->actions) : 0;
    const gpur_field_values values = {.at = r->values,
                                      .count = r->count,
                                      .pitch = r->field->bytes,
                                      .bytes = r->field->bytes,
                                      .dtype = r->field->dtype,
                                      .name = r->field->name,
                                      .item = "row"};
    if (r->replay->config.check_finite)
        GPUR_TRY(gpur_check_finite(&values, GPUR_INVALID_ARGUMENT));
    if (actions == GPUR_UNIT_ACTIONS)
        GPUR_TRY(gpur_check_unit_actions(&values, GPUR_INVALID_ARGUMENT));
    if (actions > 0)
        GPUR_TRY(gpur_check_discrete_actions(&values, actions, GPUR_INVALID_ARGUMENT));
    return gpur_consumer_check_ids_of_update(r->replay, r->count, r->ids);
}

static gpur_status launch_locked(void *context)
{
    const write_request *const r = context;
    gpur_replay *const replay = r->replay;
    const gpur_device_traits *const traits = gpur_device_get_traits(replay->device);
    gpur_write_field_args args = {
        .window = replay->window.device,
        .ring = replay->ring.rows,
        .pitch = replay->layout.rows.pitch,
        .capacity = replay->config.capacity,
        .count = r->count,
        .turn = replay->priorities.tree.turn,
        .ids = r->ids,
        .stale = replay->config.prioritized ? (uint64_t *)&replay->priorities.tree.state->stale : NULL,
        .reward_clip = is_field(r, "reward") ? replay->config.reward_clip : 0.0f,
    };
    gpur_copies copies = {0};
    gpur_copies_add(&copies, r->values, r->field->bytes, gpur_replay_stored_offset(replay, r->field->name),
                    r->field->bytes);
    args.copy = copies.list[0];
    args.copy.flags = r->field->dtype == GPUR_BOOL;
    return gpur_launch_write_field(
        r->stream, traits->has_warps ? gpur_grid_warps(replay->device, r->count) : gpur_grid_single(replay->device),
        &args);
}

static gpur_status launch(write_request *r)
{
    return gpur_with_window_locked(r->replay, launch_locked, r);
}

/* A batch of the pool takes the arrays to the device. */
static gpur_status write_by_batch(write_request *r, gpur_batch *batch)
{
    void *const ids = gpur_batch_array(batch, batch->layout.id), *const values = gpur_batch_array(batch, r->index);
    GPUR_TRY(gpur_copy(r->stream, ids, r->ids, r->count * (int64_t)sizeof *r->ids));
    GPUR_TRY(gpur_copy(r->stream, values, r->values, r->count * r->field->bytes));
    r->ids = ids, r->values = values;
    GPUR_TRY(launch(r));
    return gpur_stream_sync(r->stream);
}

/* Requires the consumer lock, which it releases. */
static gpur_status write_locked(write_request *r, gpur_batch *batch)
{
    GPUR_TRY(gpur_consumer_begin_locked(r->replay, gpur_consumer_refresh, &r->stream));
    gpur_status status = batch ? write_by_batch(r, batch) : launch(r);
    if (status == GPUR_OK && !batch)
        status = gpur_stream_sync(r->stream);
    return gpur_consumer_end(r->replay, status);
}

static gpur_status write_from_host(write_request *r)
{
    gpur_replay *const replay = r->replay;
    gpur_batch *batch = NULL;
    GPUR_TRY(check_values(r));
    gpur_consumer_lock(replay);
    if (gpur_device_get_traits(replay->device)->has_own_memory) {
        const gpur_status status = gpur_pool_acquire(replay->pool, r->count, replay->consumer.stream, &batch);
        if (status != GPUR_OK) {
            gpur_consumer_unlock(replay);
            return status;
        }
    }
    const gpur_status status = write_locked(r, batch);
    gpur_batch_release(batch);
    return status;
}

static gpur_status write_from_device(write_request *r)
{
    GPUR_TRY(gpur_consumer_begin(r->replay, gpur_consumer_refresh, &r->stream));
    gpur_status status = r->native ? gpur_stream_wait_native(r->stream, r->native) : GPUR_OK;
    if (status == GPUR_OK)
        status = launch(r);
    if (status == GPUR_OK)
        status = r->native ? gpur_native_wait_stream(r->native, r->stream) : gpur_stream_sync(r->stream);
    return gpur_consumer_end(r->replay, status);
}

gpur_status gpur_replay_write_field(gpur_replay *replay, int32_t field, int64_t count, const int64_t *ids,
                                    const void *values, void *native)
{
    GPUR_REQUIRE(replay, "replay is NULL");
    GPUR_TRY(gpur_replay_refuse_lanes(replay, "gpur_replay_write_field"));
    GPUR_REQUIRE(field >= 0 && field < replay->schema.count, "field %d; there are %d fields", (int)field,
                 (int)replay->schema.count);
    write_request request = {.replay = replay,
                             .field = &replay->schema.fields[field],
                             .index = field,
                             .count = count,
                             .ids = ids,
                             .values = values,
                             .native = native};
    GPUR_TRY(check(&request));
    GPUR_TRY(gpur_caller_arrays_locate(replay->device, count, ids, values, "values", &request.on_device));
    if (count == 0)
        return GPUR_OK;
    return (request.on_device ? write_from_device : write_from_host)(&request);
}
