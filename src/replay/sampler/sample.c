/* SPDX-License-Identifier: MIT */
/* Fills batches for callers: gpur_replay_sample, gpur_replay_sample_into and gpur_replay_gather. */
#include "replay/replay.h"
#include "replay/sampler/fill.h"
#include "replay/sampler/sampler.h"

#include <inttypes.h>
#include <string.h>

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
    GPUR_TRY(gpur_fill_set_gather(replay, batch, sampler->gather_source));
    return gpur_sample_enqueue(replay, sampler, &args, &batch->gather_plan, stream);
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
    GPUR_TRY(gpur_fill_set_gather(r->replay, r->batch, GPUR_GATHER_IDS));
    if (r->batch->layout.relabeled >= 0)
        GPUR_TRY(gpur_fill(r->stream, gpur_batch_array(r->batch, r->batch->layout.relabeled), 0, r->batch->count));
    return gpur_gather_plan_launch(r->replay, r->stream, &r->batch->gather_plan);
}

/* Requires the consumer lock. Gathers the rows `ids` or, if that is NULL, samples. */
static gpur_status fill(gpur_replay *replay, gpur_batch *batch, const int64_t *ids, gpur_stream *stream, void *native)
{
    gather_request gather = {replay, batch, ids, stream};
    GPUR_TRY(ids ? gpur_with_ids_locked(replay, batch->count, ids, gather_locked, &gather)
                 : sample(replay, batch, stream));
    replay->consumer.samples += !ids;
    return gpur_fill_finish(replay, batch, stream, native);
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
    GPUR_TRY(gpur_fill_check(replay, count, native, out));
    GPUR_TRY(gpur_fill_begin(replay, sample_of(replay, count), count, &stream, &batch));
    return gpur_fill_end(replay, fill(replay, batch, NULL, stream, native), batch, out);
}

static gpur_status refill(gpur_replay *replay, gpur_batch *batch, gpur_stream *stream, void *native)
{
    GPUR_TRY(gpur_pool_reuse(batch, stream));
    batch->length = 0;
    return fill(replay, batch, NULL, stream, native);
}

gpur_status gpur_replay_sample_into(gpur_replay *replay, void *native, gpur_batch *batch)
{
    gpur_stream *stream = NULL;
    GPUR_TRY(gpur_fill_check_again(replay, native, batch));
    GPUR_TRY(gpur_consumer_begin(replay, sample_of(replay, batch->count), &stream));
    return gpur_consumer_end(replay, refill(replay, batch, stream, native));
}

gpur_status gpur_replay_gather(gpur_replay *replay, int64_t count, const int64_t *ids, void *native, gpur_batch **out)
{
    const gpur_consumer_launch launch = {GPUR_LAUNCH_SAMPLE, 1, 0};
    gpur_stream *stream = NULL;
    gpur_batch *batch = NULL;
    GPUR_TRY(gpur_fill_check(replay, count, native, out));
    GPUR_REQUIRE(ids, "ids is NULL; it must be the ids of %" PRId64 " transitions", count);
    GPUR_TRY(gpur_consumer_check_ids(replay, count, ids));
    GPUR_TRY(gpur_fill_begin(replay, launch, count, &stream, &batch));
    return gpur_fill_end(replay, fill(replay, batch, ids, stream, native), batch, out);
}
