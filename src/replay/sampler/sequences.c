/* SPDX-License-Identifier: MIT */
#include "replay/sampler/sequences.h"

#include "base/sized.h"
#include "gpureplay/sequences.h"
#include "kernels/lib/random.h"
#include "replay/config.h"
#include "replay/sampler/fill.h"
#include "replay/sampler/sampler.h"
#include "replay/view.h"

#include <inttypes.h>
#include <string.h>

gpur_status gpur_sequences_check(const gpur_replay *replay)
{
    const int32_t field = gpur_schema_find(&replay->schema, "previous");
    if (replay->lanes.device)
        return GPUR_OK;
    GPUR_REQUIRE(field >= 0, "the schema has no field \"previous\", which sequences follow; it must be one int64");
    const gpur_field_info *const previous = &replay->schema.fields[field];
    GPUR_REQUIRE(previous->dtype == GPUR_INT64 && previous->bytes == (int64_t)sizeof(int64_t),
                 "field \"previous\" is %s of %" PRId64 " bytes; for sequences it must be one int64",
                 gpur_dtype_name(previous->dtype), previous->bytes);
    GPUR_REQUIRE(gpur_schema_has_sequences(&replay->schema),
                 "the schema has a field \"%s\", which is the name of an array of every batch of sequences",
                 gpur_schema_find(&replay->schema, "mask") >= 0 ? "mask" : "is_first");
    return GPUR_OK;
}

static int32_t last_of(const gpur_sequences_request *r)
{
    if (r->last_ids)
        return GPUR_LAST_GIVEN;
    if (r->source == GPUR_PRIORITIZED_STRATIFIED)
        return GPUR_LAST_STRATIFIED;
    return r->source == GPUR_PRIORITIZED_INDEPENDENT ? GPUR_LAST_INDEPENDENT : GPUR_LAST_UNIFORM;
}

gpur_status gpur_sequences_enqueue(gpur_replay *replay, const gpur_sequences_request *r, gpur_stream *stream)
{
    const gpur_schema *const rows = &replay->layout.rows;
    const gpur_sequences_args args = {
        .window = replay->window.device,
        .ring = replay->ring.rows,
        .pitch = rows->pitch,
        .capacity = replay->config.capacity,
        .count = r->count,
        .length = r->length,
        .min_length = r->min_length,
        .step = r->step,
        .step_value = r->step_value,
        .seed = r->seed,
        .last_ids = r->last_ids,
        .last_pitch = r->last_pitch,
        .id = r->ids,
        .leaf = r->leaf,
        .mask = r->mask,
        .is_first = r->is_first,
        .lanes = replay->lanes.lanes,
        .tree = replay->priorities.tree,
        .previous_offset = gpur_replay_stored_offset(replay, "previous"),
        .last = last_of(r),
        .across_episodes = r->across_episodes,
        .purpose = r->purpose,
    };
    return gpur_launch_sequences(stream, gpur_grid_elements(replay->device, r->count), &args);
}

/* The public functions. */

static const gpur_sequence_config defaults = {.size = sizeof(gpur_sequence_config), .across_episodes = 1};

gpur_status gpur_sequence_config_init(gpur_sequence_config *config, uint64_t size)
{
    return gpur_sized_init(config, size, &defaults, sizeof defaults, "gpur_sequence_config");
}

int64_t gpur_batch_length(const gpur_batch *batch)
{
    return batch ? batch->length : 0;
}

static gpur_status check_shape(const gpur_replay *replay, const gpur_sequence_config *c)
{
    const int64_t most = replay->config.max_batch;
    GPUR_REQUIRE(c->batch >= 1 && c->length >= 1 && c->batch <= most / c->length && c->batch <= GPUR_MAX_SEQUENCES,
                 "gpur_sequence_config.batch is %" PRId64 " and length %" PRId64
                 "; both must be 1 or more, and batch x length at most max_batch = %" PRId64
                 " (a setting of the replay)",
                 c->batch, c->length, most);
    GPUR_REQUIRE(c->min_length >= 0 && c->min_length <= c->length,
                 "gpur_sequence_config.min_length is %" PRId64 "; it must be 1 to length = %" PRId64
                 ", or 0 for length",
                 c->min_length, c->length);
    return gpur_choice_check(c->across_episodes, 1, "gpur_sequence_config.across_episodes", "0 or 1");
}

/* How last rows are drawn: a sequence may be drawn twice. */
static int32_t source_of(const gpur_replay *replay)
{
    const int32_t source = replay->config.index_source;
    return source == GPUR_UNIFORM_DISTINCT ? GPUR_UNIFORM : source;
}

static gpur_status read_config(gpur_replay *replay, const gpur_sequence_config *given, gpur_sequence_config *c)
{
    *c = defaults;
    GPUR_REQUIRE(replay, "replay is NULL");
    GPUR_TRY(gpur_replay_refuse_lanes(replay, "sequences"));
    GPUR_TRY(gpur_sized_read(c, sizeof *c, given, "gpur_sequence_config"));
    GPUR_TRY(gpur_sequences_check(replay));
    GPUR_TRY(check_shape(replay, c));
    return c->last_ids ? gpur_consumer_check_ids(replay, c->batch, c->last_ids) : GPUR_OK;
}

/* Sequences to be found and gathered into a batch. */
typedef struct sequences_work {
    gpur_replay *replay;
    gpur_batch *batch;
    const gpur_sequence_config *config;
    gpur_stream *stream;
} sequences_work;

/* Copies the ids of the last rows to where the kernel reads them: the first id of each sequence. Launch n overwrites
 * the pinned ids of launch n - 2, for which gpur_consumer_begin has waited. */
static gpur_status upload_last_ids(const sequences_work *w, int64_t *ids)
{
    gpur_consumer *const consumer = &w->replay->consumer;
    int64_t *const pinned = consumer->ids + consumer->launches % 2 * w->replay->config.max_batch;
    memset(pinned, 0, (size_t)w->batch->count * sizeof *pinned);
    for (int64_t s = 0; s < w->config->batch; s++)
        pinned[s * w->config->length] = w->config->last_ids[s];
    return gpur_copy(w->stream, ids, pinned, w->batch->count * (int64_t)sizeof *pinned);
}

static gpur_status find_sequences(const sequences_work *w, int is_by_priority)
{
    const gpur_sequence_config *const c = w->config;
    const gpur_batch_layout *const layout = &w->batch->layout;
    int64_t *const ids = gpur_batch_array(w->batch, layout->id);
    const gpur_sequences_request request = {
        .count = c->batch,
        .length = c->length,
        .min_length = c->min_length > 0 ? c->min_length : c->length,
        .across_episodes = c->across_episodes,
        .source = source_of(w->replay),
        .purpose = GPUR_RANDOM_SEQUENCES,
        .seed = w->replay->config.seed,
        .step_value = (uint64_t)w->replay->consumer.samples,
        .last_ids = c->last_ids ? ids : NULL,
        .last_pitch = c->length,
        .ids = ids,
        .leaf = is_by_priority ? w->replay->priorities.leaf : NULL,
        .mask = gpur_batch_array(w->batch, layout->mask),
        .is_first = gpur_batch_array(w->batch, layout->is_first),
    };
    if (c->last_ids)
        GPUR_TRY(upload_last_ids(w, ids));
    return gpur_sequences_enqueue(w->replay, &request, w->stream);
}

static gpur_status fill_locked(void *context)
{
    const sequences_work *const w = context;
    gpur_batch *const batch = w->batch;
    const gpur_sampler *const sampler = gpur_sampler_of(source_of(w->replay));
    const int is_by_priority = sampler->is_by_priority && !w->config->last_ids;
    const gpur_sample_args weighted = {
        .step_value = (uint64_t)w->replay->consumer.samples,
        .beta = w->replay->config.beta,
        .id = gpur_batch_array(batch, batch->layout.id),
        .leaf = w->replay->priorities.leaf,
        .weight = gpur_batch_array(batch, batch->layout.weight),
    };
    batch->length = w->config->length;
    GPUR_TRY(find_sequences(w, is_by_priority));
    GPUR_TRY(gpur_fill_set_gather(w->replay, batch, GPUR_GATHER_IDS));
    GPUR_TRY(gpur_gather_plan_launch(w->replay, w->stream, &batch->gather_plan));
    if (!is_by_priority)
        return GPUR_OK;
    const gpur_priority_weights_args weights = gpur_sampler_weights_args(w->replay, &weighted, batch->count);
    return gpur_sampler_launch_weights(w->replay, w->stream, &weights);
}

/* Requires the consumer lock. */
static gpur_status fill(gpur_replay *replay, gpur_batch *batch, const gpur_sequence_config *c, gpur_stream *stream,
                        void *native)
{
    sequences_work work = {replay, batch, c, stream};
    GPUR_TRY(c->last_ids ? gpur_with_ids_locked(replay, c->batch, c->last_ids, fill_locked, &work)
                         : gpur_with_window_locked(replay, fill_locked, &work));
    replay->consumer.samples += !c->last_ids;
    return gpur_fill_finish(replay, batch, stream, native);
}

static gpur_consumer_launch launch_of(const gpur_replay *replay, const gpur_sequence_config *c)
{
    const gpur_consumer_launch launch = {GPUR_LAUNCH_SAMPLE, 1, c->last_ids ? 0 : replay->config.min_size};
    return launch;
}

gpur_status gpur_replay_sample_sequences(gpur_replay *replay, const gpur_sequence_config *given, void *native,
                                         gpur_batch **out)
{
    gpur_sequence_config c;
    gpur_stream *stream = NULL;
    gpur_batch *batch = NULL;
    GPUR_TRY(gpur_fill_check(replay, 1, native, out));
    GPUR_TRY(read_config(replay, given, &c));
    GPUR_TRY(gpur_fill_begin(replay, launch_of(replay, &c), c.batch * c.length, &stream, &batch));
    return gpur_fill_end(replay, fill(replay, batch, &c, stream, native), batch, out);
}

static gpur_status refill(gpur_replay *replay, gpur_batch *batch, const gpur_sequence_config *c, gpur_stream *stream,
                          void *native)
{
    GPUR_TRY(gpur_pool_reuse(batch, stream));
    return fill(replay, batch, c, stream, native);
}

gpur_status gpur_replay_sample_sequences_into(gpur_replay *replay, const gpur_sequence_config *given, void *native,
                                              gpur_batch *batch)
{
    gpur_sequence_config c;
    gpur_stream *stream = NULL;
    GPUR_TRY(gpur_fill_check_again(replay, native, batch));
    GPUR_TRY(read_config(replay, given, &c));
    GPUR_REQUIRE(c.batch * c.length == batch->count,
                 "gpur_sequence_config.batch is %" PRId64 " and length %" PRId64 "; the batch has %" PRId64
                 " transitions, and batch x length must be as many",
                 c.batch, c.length, batch->count);
    GPUR_TRY(gpur_consumer_begin(replay, launch_of(replay, &c), &stream));
    return gpur_consumer_end(replay, refill(replay, batch, &c, stream, native));
}
