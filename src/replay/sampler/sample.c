/* SPDX-License-Identifier: MIT */
/* Fills batches for callers: gpur_replay_sample, gpur_replay_resample and gpur_replay_gather. */
#include "kernels/lib/random.h"
#include "replay/sampler/consumer.h"
#include "replay/sampler/gather.h"
#include "replay/replay.h"

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
    return gpur_native_check(replay->device, stream, 1);
}

/* Prepares the gather into all arrays of the batch, in the order of its layout. Done once, because the arrays never
 * move. */
static gpur_status prepare(gpur_replay *replay, gpur_batch *batch)
{
    gpur_draw_field fields[GPUR_MAX_FIELDS];
    const gpur_schema *const schema = &replay->schema;
    for (int32_t i = 0; i < schema->count; i++) {
        fields[i].field = i;
        fields[i].to = gpur_batch_array(batch, i);
        fields[i].pitch = schema->fields[i].bytes;
    }
    const gpur_draw_request request = {
        .fields = fields,
        .field_count = schema->count,
        .rows = batch->rows,
        .id = gpur_batch_array(batch, batch->layout.id),
        .weight = gpur_batch_array(batch, batch->layout.weight),
        .discount = batch->layout.discount < schema->count ? NULL : gpur_batch_array(batch, batch->layout.discount),
        .source = gpur_source_has_priorities(replay->config.index_source) ? GPUR_SOURCE_IDS
                                                                          : replay->config.index_source,
        .links = (uint32_t *)(void *)(batch->memory + batch->layout.links),
        .ids = gpur_batch_array(batch, batch->layout.id), /* ids of a caller, or sampled by priority */
        .seed = replay->config.seed,
    };
    return gpur_drawing_prepare(replay, &request, &batch->drawing);
}

/* With GPUR_SOURCE_IDS the caller holds the window lock. */
static gpur_status launch_gather(gpur_replay *replay, gpur_batch *batch, int32_t source, gpur_stream *stream)
{
    gpur_gather_args *const rows = &batch->drawing.rows;
    if (rows->batch == 0)
        GPUR_TRY(prepare(replay, batch));
    rows->batch = batch->count;
    rows->source = source;
    rows->step_value = (uint64_t)replay->draws;
    return (source == GPUR_SOURCE_IDS ? gpur_drawing_launch_locked : gpur_drawing_launch)(replay, stream,
                                                                                          &batch->drawing);
}

static gpur_status draw_and_gather(gpur_replay *replay, gpur_batch *batch, gpur_stream *stream)
{
    const gpur_priorities *const priorities = gpur_replay_priorities(replay);
    gpur_priority_draw_args args =
        gpur_priorities_draw(priorities, replay->config.index_source, batch->count,
                             gpur_batch_array(batch, batch->layout.id), priorities->leaf);
    args.seed = replay->config.seed;
    args.step_value = (uint64_t)replay->draws;
    args.purpose = GPUR_DRAW_PRIORITY;
    GPUR_TRY(gpur_launch_priority_draw(stream, gpur_priorities_draw_grid(priorities, batch->count), &args));
    return launch_gather(replay, batch, GPUR_SOURCE_IDS, stream);
}

static gpur_status weigh(gpur_replay *replay, gpur_batch *batch, gpur_stream *stream)
{
    const gpur_priorities *const priorities = gpur_replay_priorities(replay);
    const gpur_schedule *const beta = &replay->config.beta;
    gpur_priority_weights_args args =
        gpur_priorities_weights(priorities, batch->count, gpur_batch_array(batch, batch->layout.id), priorities->leaf,
                                gpur_batch_array(batch, batch->layout.weight));
    args.step_value = (uint64_t)replay->draws;
    args.beta_first = beta->first, args.beta_last = beta->last;
    args.beta_begin = beta->begin, args.beta_steps = beta->steps;
    return gpur_launch_priority_weights(stream, gpur_grid_elements(replay->device, batch->count), &args);
}

static gpur_status launch_by_priority(gpur_replay *replay, gpur_batch *batch, gpur_stream *stream)
{
    gpur_consumer_hold(replay);
    gpur_status status = draw_and_gather(replay, batch, stream);
    if (status == GPUR_OK)
        status = weigh(replay, batch, stream);
    gpur_consumer_let_go(replay);
    return status;
}

static gpur_status hand_out(gpur_batch *batch, gpur_stream *stream, void *native)
{
    GPUR_TRY(gpur_event_record(batch->filled, stream));
    if (!native)
        return GPUR_OK;
    GPUR_TRY(gpur_pool_add_reader(batch, native));
    return gpur_native_wait_stream(native, stream);
}

static gpur_status draw(gpur_replay *replay, gpur_batch *batch, gpur_stream *stream, void *native)
{
    const int32_t source = replay->config.index_source;
    GPUR_TRY(gpur_source_has_priorities(source) ? launch_by_priority(replay, batch, stream)
                                                : launch_gather(replay, batch, source, stream));
    replay->draws++;
    return hand_out(batch, stream, native);
}

/* Launch n overwrites the pinned ids of launch n - 2, for which gpur_consumer_begin has waited. */
static gpur_status draw_ids(gpur_replay *replay, gpur_batch *batch, const int64_t *ids, gpur_stream *stream,
                            void *native)
{
    int64_t *const pinned = replay->ids + replay->launches % 2 * replay->config.max_batch;
    const int64_t bytes = batch->count * (int64_t)sizeof *ids;
    memcpy(pinned, ids, (size_t)bytes);
    GPUR_TRY(gpur_copy(stream, gpur_batch_array(batch, batch->layout.id), pinned, bytes));
    GPUR_TRY(launch_gather(replay, batch, GPUR_SOURCE_IDS, stream));
    return hand_out(batch, stream, native);
}

static gpur_status draw_visible_ids(gpur_replay *replay, gpur_batch *batch, const int64_t *ids, gpur_stream *stream,
                                    void *native)
{
    GPUR_TRY(gpur_consumer_hold_ids(replay, batch->count, ids));
    const gpur_status status = draw_ids(replay, batch, ids, stream, native);
    gpur_consumer_let_go(replay);
    return status;
}

static void count_drawn(gpur_replay *replay, int64_t count)
{
    const int64_t before = atomic_load_explicit(&replay->drawn, memory_order_relaxed);
    atomic_store_explicit(&replay->drawn, before + count, memory_order_relaxed); /* under the consumer lock */
}

/* Gets an idle batch or, after the checks that the launch will make, a new one: a call that will be refused allocates
 * nothing. */
static gpur_status take_batch(gpur_replay *replay, int64_t needed, int64_t burn_in, int64_t count, gpur_batch **batch)
{
    gpur_stream *const stream = replay->intake.feed.consumer;
    GPUR_TRY(gpur_pool_take_idle(replay->pool, count, stream, batch));
    if (*batch)
        return GPUR_OK;
    GPUR_TRY(gpur_consumer_check(replay, needed, burn_in));
    return gpur_pool_take(replay->pool, count, stream, batch);
}

/* Takes the consumer lock, gets a batch to fill, and begins the launch. In this order nothing has been published if
 * there is no memory for the batch. */
static gpur_status begin(gpur_replay *replay, int64_t needed, int64_t burn_in, int64_t count, gpur_stream **stream,
                         gpur_batch **batch)
{
    gpur_consumer_take_turn(replay);
    gpur_status status = take_batch(replay, needed, burn_in, count, batch);
    if (status != GPUR_OK) {
        gpur_consumer_give_turn(replay);
        return status;
    }
    status = gpur_consumer_begin_in_turn(replay, needed, burn_in, stream);
    if (status != GPUR_OK)
        gpur_batch_release(*batch);
    return status;
}

/* Requires the consumer lock. Gathers the rows `ids` or, if that is NULL, samples by the replay's index source. */
static gpur_status fill(gpur_replay *replay, gpur_batch *batch, const int64_t *ids, gpur_stream *stream, void *native)
{
    GPUR_TRY(ids ? draw_visible_ids(replay, batch, ids, stream, native) : draw(replay, batch, stream, native));
    count_drawn(replay, batch->count);
    return GPUR_OK;
}

/* Ends the launch, and gives the batch to the caller if it was filled. */
static gpur_status end(gpur_replay *replay, gpur_status filled, gpur_batch *batch, gpur_batch **out)
{
    const gpur_status ended = gpur_consumer_end(replay);
    const gpur_status status = filled != GPUR_OK ? filled : ended;
    if (status == GPUR_OK)
        *out = batch;
    else
        gpur_batch_release(batch);
    return status;
}

/* Rows that must be visible for a sample of `count` rows. */
static int64_t needed_for(const gpur_replay *replay, int64_t count)
{
    return replay->config.index_source == GPUR_UNIFORM_DISTINCT ? count : 1;
}

gpur_status gpur_replay_sample(gpur_replay *replay, int64_t count, void *native, gpur_batch **out)
{
    gpur_stream *stream = NULL;
    gpur_batch *batch = NULL;
    GPUR_TRY(check(replay, count, native, out));
    GPUR_TRY(begin(replay, needed_for(replay, count), replay->config.min_size, count, &stream, &batch));
    return end(replay, fill(replay, batch, NULL, stream, native), batch, out);
}

static gpur_status check_again(const gpur_replay *replay, void *stream, gpur_batch *batch)
{
    gpur_batch *unused = NULL;
    GPUR_REQUIRE(batch, "batch is NULL; it must be one that this replay drew");
    GPUR_TRY(check(replay, batch->count, stream, &unused));
    GPUR_REQUIRE(batch->pool == replay->pool, "the batch is of another replay; it must be one that this replay drew");
    const int references = atomic_load(&batch->references);
    if (references != 1)
        return gpur_fail(GPUR_WOULD_BLOCK, "the batch has %d references; it must have one, the caller's", references);
    return GPUR_OK;
}

static gpur_status refill(gpur_replay *replay, gpur_batch *batch, gpur_stream *stream, void *native)
{
    GPUR_TRY(gpur_pool_take_again(batch, stream));
    GPUR_TRY(draw(replay, batch, stream, native));
    count_drawn(replay, batch->count);
    return GPUR_OK;
}

gpur_status gpur_replay_resample(gpur_replay *replay, void *native, gpur_batch *batch)
{
    gpur_stream *stream = NULL;
    GPUR_TRY(check_again(replay, native, batch));
    GPUR_TRY(gpur_consumer_begin_draw(replay, needed_for(replay, batch->count), &stream));
    const gpur_status status = refill(replay, batch, stream, native), ended = gpur_consumer_end(replay);
    return status != GPUR_OK ? status : ended;
}

gpur_status gpur_replay_gather(gpur_replay *replay, int64_t count, const int64_t *ids, void *native, gpur_batch **out)
{
    gpur_stream *stream = NULL;
    gpur_batch *batch = NULL;
    GPUR_TRY(check(replay, count, native, out));
    GPUR_REQUIRE(ids, "ids is NULL; it must be the ids of %" PRId64 " transitions", count);
    GPUR_TRY(gpur_consumer_refuse_ids(replay, count, ids));
    GPUR_TRY(begin(replay, 1, 0, count, &stream, &batch));
    return end(replay, fill(replay, batch, ids, stream, native), batch, out);
}
