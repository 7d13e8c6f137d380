/* SPDX-License-Identifier: MIT */
#include "replay/sampler/fill.h"

#include "replay/sampler/sampler.h"
#include "replay/view.h"

#include <inttypes.h>

gpur_status gpur_fill_check(const gpur_replay *replay, int64_t count, void *stream, gpur_batch **batch)
{
    GPUR_REQUIRE(batch, "batch is NULL; it must be where the batch goes");
    *batch = NULL;
    GPUR_REQUIRE(replay, "replay is NULL");
    GPUR_TRY(gpur_replay_refuse_lanes(replay, "a batch"));
    GPUR_REQUIRE(count >= 1 && count <= replay->config.max_batch,
                 "count is %" PRId64 "; it must be 1 to max_batch = %" PRId64 " (a setting of the replay)", count,
                 replay->config.max_batch);
    return gpur_native_stream_check(replay->device, stream, 1);
}

gpur_status gpur_fill_check_again(const gpur_replay *replay, void *stream, gpur_batch *batch)
{
    gpur_batch *unused = NULL;
    GPUR_REQUIRE(batch, "batch is NULL; it must be one that this replay sampled");
    GPUR_TRY(gpur_fill_check(replay, batch->count, stream, &unused));
    GPUR_REQUIRE(batch->pool == replay->pool,
                 "the batch is of another replay; it must be one that this replay sampled");
    const int references = atomic_load(&batch->references);
    if (references != 1)
        return gpur_fail(GPUR_WOULD_BLOCK, "the batch has %d references; it must have one, the caller's", references);
    return GPUR_OK;
}

/* Prepares the gather into all arrays of the batch, in the order of its layout. Done once, because the arrays never
 * move. */
static gpur_status prepare(gpur_replay *replay, gpur_batch *batch)
{
    gpur_gather_field fields[GPUR_MAX_FIELDS];
    const gpur_schema *const schema = &replay->schema;
    const gpur_sampler *const sampler = gpur_sampler_of(replay->config.index_source);
    const int32_t relabeled = batch->layout.relabeled;
    for (int32_t i = 0; i < schema->count; i++) {
        fields[i].field = i;
        fields[i].to = gpur_batch_array(batch, i);
        fields[i].pitch = schema->fields[i].bytes;
    }
    const gpur_gather_request request = {
        .fields = fields,
        .field_count = schema->count,
        .rows = batch->rows,
        .id = gpur_batch_array(batch, batch->layout.id),
        .weight = gpur_batch_array(batch, batch->layout.weight),
        .discount = batch->layout.discount < schema->count ? NULL : gpur_batch_array(batch, batch->layout.discount),
        .source = sampler->gather_source,
        .links = (uint32_t *)(void *)(batch->memory + batch->layout.links),
        .ids = gpur_batch_array(batch, batch->layout.id), /* a caller's, or those that the sampler writes */
        .relabeled = relabeled < 0 ? NULL : gpur_batch_array(batch, relabeled),
        .seed = replay->config.seed,
        .purpose = sampler->purpose[GPUR_USER_CALLER],
    };
    return gpur_gather_plan_prepare(replay, &request, &batch->gather_plan);
}

gpur_status gpur_fill_set_gather(gpur_replay *replay, gpur_batch *batch, int32_t source)
{
    gpur_gather_args *const rows = &batch->gather_plan.rows;
    if (rows->batch == 0)
        GPUR_TRY(prepare(replay, batch));
    rows->batch = batch->count;
    rows->source = source;
    rows->step_value = (uint64_t)replay->consumer.samples;
    return GPUR_OK;
}

gpur_status gpur_fill_finish(gpur_replay *replay, gpur_batch *batch, gpur_stream *stream, void *native)
{
    const int64_t before = atomic_load_explicit(&replay->sampled, memory_order_relaxed);
    GPUR_TRY(gpur_event_record(batch->filled, stream));
    if (native) {
        GPUR_TRY(gpur_pool_add_reader(batch, native));
        GPUR_TRY(gpur_native_wait_stream(native, stream));
    }
    atomic_store_explicit(&replay->sampled, before + batch->count, memory_order_relaxed); /* under the consumer lock */
    return GPUR_OK;
}

/* Gets an idle batch or, after the checks that the launch will make, a new one: a call that will be refused allocates
 * nothing. */
static gpur_status acquire_batch(gpur_replay *replay, gpur_consumer_launch launch, int64_t count, gpur_batch **batch)
{
    gpur_stream *const stream = replay->consumer.stream;
    GPUR_TRY(gpur_pool_acquire_idle(replay->pool, count, stream, batch));
    if (*batch)
        return GPUR_OK;
    GPUR_TRY(gpur_consumer_check(replay, launch));
    return gpur_pool_acquire(replay->pool, count, stream, batch);
}

gpur_status gpur_fill_begin(gpur_replay *replay, gpur_consumer_launch launch, int64_t count, gpur_stream **stream,
                            gpur_batch **batch)
{
    gpur_consumer_lock(replay);
    gpur_status status = acquire_batch(replay, launch, count, batch);
    if (status != GPUR_OK) {
        gpur_consumer_unlock(replay);
        return status;
    }
    status = gpur_consumer_begin_locked(replay, launch, stream);
    if (status != GPUR_OK)
        gpur_batch_release(*batch);
    return status;
}

gpur_status gpur_fill_end(gpur_replay *replay, gpur_status filled, gpur_batch *batch, gpur_batch **out)
{
    const gpur_status status = gpur_consumer_end(replay, filled);
    if (status == GPUR_OK)
        *out = batch;
    else
        gpur_batch_release(batch);
    return status;
}
