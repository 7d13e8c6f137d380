/* SPDX-License-Identifier: MIT */
/* Fills batches for callers: gpur_replay_sample, gpur_replay_sample_into and gpur_replay_gather. */
#include "replay/replay.h"
#include "replay/sampler/sampler.h"

#include <inttypes.h>
#include <string.h>

static gpur_status check(const gpur_replay *replay, int64_t count, void *stream, gpur_batch **batch)
{
    GPUR_REQUIRE(batch, "batch is NULL; it must be where the batch goes");
    *batch = NULL;
    GPUR_REQUIRE(replay, "replay is NULL");
    GPUR_REQUIRE(count >= 1 && count <= replay->config.max_batch,
                 "count is %" PRId64 "; it must be 1 to max_batch = %" PRId64 " (a setting of the replay)", count,
                 replay->config.max_batch);
    return gpur_native_stream_check(replay->device, stream, 1);
}

/* Prepares the gather into all arrays of the batch, in the order of its layout. Done once, because the arrays never
 * move. */
static gpur_status prepare(gpur_replay *replay, gpur_batch *batch)
{
    gpur_gather_field fields[GPUR_MAX_FIELDS];
    const gpur_schema *const schema = &replay->schema;
    const gpur_sampler *const sampler = gpur_sampler_of(replay->config.index_source);
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
        .seed = replay->config.seed,
        .purpose = sampler->purpose[GPUR_USER_CALLER],
    };
    return gpur_gather_plan_prepare(replay, &request, &batch->gather_plan);
}

/* Sets what changes from one gather into the batch to the next. */
static gpur_status set_gather(gpur_replay *replay, gpur_batch *batch, int32_t source)
{
    gpur_gather_args *const rows = &batch->gather_plan.rows;
    if (rows->batch == 0)
        GPUR_TRY(prepare(replay, batch));
    rows->batch = batch->count;
    rows->source = source;
    rows->step_value = (uint64_t)replay->consumer.samples;
    return GPUR_OK;
}

static gpur_status sample(gpur_replay *replay, gpur_batch *batch, gpur_stream *stream)
{
    const gpur_sampler *const sampler = gpur_sampler_of(replay->config.index_source);
    const gpur_sample_args args = {
        .user = GPUR_USER_CALLER,
        .seed = replay->config.seed,
        .step_value = (uint64_t)replay->consumer.samples,
        .beta = replay->config.beta,
        .id = gpur_batch_array(batch, batch->layout.id),
        .leaf = replay->priorities.leaf,
        .weight = gpur_batch_array(batch, batch->layout.weight),
    };
    GPUR_TRY(set_gather(replay, batch, sampler->gather_source));
    return gpur_sample_enqueue(replay, sampler, &args, &batch->gather_plan, stream);
}

static gpur_status finish_batch(gpur_batch *batch, gpur_stream *stream, void *native)
{
    GPUR_TRY(gpur_event_record(batch->filled, stream));
    if (!native)
        return GPUR_OK;
    GPUR_TRY(gpur_pool_add_reader(batch, native));
    return gpur_native_wait_stream(native, stream);
}

/* A gather of the rows with these ids. */
typedef struct gather_request {
    gpur_replay *replay;
    gpur_batch *batch;
    const int64_t *ids;
    gpur_stream *stream;
} gather_request;

/* Launch n overwrites the pinned ids of launch n - 2, for which gpur_consumer_begin has waited. */
static gpur_status gather_locked(void *context)
{
    const gather_request *const r = context;
    gpur_consumer *const consumer = &r->replay->consumer;
    int64_t *const pinned = consumer->ids + consumer->launches % 2 * r->replay->config.max_batch;
    const int64_t bytes = r->batch->count * (int64_t)sizeof *r->ids;
    memcpy(pinned, r->ids, (size_t)bytes);
    GPUR_TRY(gpur_copy(r->stream, gpur_batch_array(r->batch, r->batch->layout.id), pinned, bytes));
    GPUR_TRY(set_gather(r->replay, r->batch, GPUR_GATHER_IDS));
    return gpur_gather_plan_launch(r->replay, r->stream, &r->batch->gather_plan);
}

static void count_sampled(gpur_replay *replay, int64_t count)
{
    const int64_t before = atomic_load_explicit(&replay->sampled, memory_order_relaxed);
    atomic_store_explicit(&replay->sampled, before + count, memory_order_relaxed); /* under the consumer lock */
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

/* Takes the consumer lock, gets a batch to fill, and begins the launch. In this order nothing has been published if
 * there is no memory for the batch. */
static gpur_status begin(gpur_replay *replay, gpur_consumer_launch launch, int64_t count, gpur_stream **stream,
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

/* Requires the consumer lock. Gathers the rows `ids` or, if that is NULL, samples. */
static gpur_status fill(gpur_replay *replay, gpur_batch *batch, const int64_t *ids, gpur_stream *stream, void *native)
{
    gather_request gather = {replay, batch, ids, stream};
    GPUR_TRY(ids ? gpur_with_ids_locked(replay, batch->count, ids, gather_locked, &gather)
                 : sample(replay, batch, stream));
    replay->consumer.samples += !ids;
    GPUR_TRY(finish_batch(batch, stream, native));
    count_sampled(replay, batch->count);
    return GPUR_OK;
}

/* Ends the launch, and gives the batch to the caller if it was filled. */
static gpur_status end(gpur_replay *replay, gpur_status filled, gpur_batch *batch, gpur_batch **out)
{
    const gpur_status status = gpur_consumer_end(replay, filled);
    if (status == GPUR_OK)
        *out = batch;
    else
        gpur_batch_release(batch);
    return status;
}

static gpur_consumer_launch sample_of(const gpur_replay *replay, int64_t count)
{
    const gpur_consumer_launch launch = {GPUR_LAUNCH_SAMPLE,
                                         gpur_sampler_needs(gpur_sampler_of(replay->config.index_source), count),
                                         replay->config.min_size};
    return launch;
}

gpur_status gpur_replay_sample(gpur_replay *replay, int64_t count, void *native, gpur_batch **out)
{
    gpur_stream *stream = NULL;
    gpur_batch *batch = NULL;
    GPUR_TRY(check(replay, count, native, out));
    GPUR_TRY(begin(replay, sample_of(replay, count), count, &stream, &batch));
    return end(replay, fill(replay, batch, NULL, stream, native), batch, out);
}

static gpur_status check_again(const gpur_replay *replay, void *stream, gpur_batch *batch)
{
    gpur_batch *unused = NULL;
    GPUR_REQUIRE(batch, "batch is NULL; it must be one that this replay sampled");
    GPUR_TRY(check(replay, batch->count, stream, &unused));
    GPUR_REQUIRE(batch->pool == replay->pool,
                 "the batch is of another replay; it must be one that this replay sampled");
    const int references = atomic_load(&batch->references);
    if (references != 1)
        return gpur_fail(GPUR_WOULD_BLOCK, "the batch has %d references; it must have one, the caller's", references);
    return GPUR_OK;
}

static gpur_status refill(gpur_replay *replay, gpur_batch *batch, gpur_stream *stream, void *native)
{
    GPUR_TRY(gpur_pool_reuse(batch, stream));
    return fill(replay, batch, NULL, stream, native);
}

gpur_status gpur_replay_sample_into(gpur_replay *replay, void *native, gpur_batch *batch)
{
    gpur_stream *stream = NULL;
    GPUR_TRY(check_again(replay, native, batch));
    GPUR_TRY(gpur_consumer_begin(replay, sample_of(replay, batch->count), &stream));
    return gpur_consumer_end(replay, refill(replay, batch, stream, native));
}

gpur_status gpur_replay_gather(gpur_replay *replay, int64_t count, const int64_t *ids, void *native, gpur_batch **out)
{
    const gpur_consumer_launch launch = {GPUR_LAUNCH_SAMPLE, 1, 0};
    gpur_stream *stream = NULL;
    gpur_batch *batch = NULL;
    GPUR_TRY(check(replay, count, native, out));
    GPUR_REQUIRE(ids, "ids is NULL; it must be the ids of %" PRId64 " transitions", count);
    GPUR_TRY(gpur_consumer_check_ids(replay, count, ids));
    GPUR_TRY(begin(replay, launch, count, &stream, &batch));
    return end(replay, fill(replay, batch, ids, stream, native), batch, out);
}
