/* SPDX-License-Identifier: MIT */
/* Plans and enqueues the gather of a train step's rows, from wherever they come. */
#include "learn/batch_source.h"

#include "replay/view.h"

#include <string.h>

/* Rows of lanes become transitions while they are gathered, by the replay's n_step and gamma. */
static void plan_lanes(const gpur_train_batch *batch, const gpur_gather_request *request, gpur_rows_plan *plan)
{
    const gpur_replay_config *const settings = gpur_replay_settings(batch->replay);
    for (int32_t i = 0; i < request->field_count; i++) {
        plan->fields[request->fields[i].field] = request->fields[i].to;
        plan->pitches[request->fields[i].field] = request->fields[i].pitch;
    }
    plan->lanes = (gpur_lane_batch){
        .count = request->rows,
        .ids = request->ids,
        .fields = plan->fields,
        .pitches = plan->pitches,
        .id = request->id,
        .weight = request->weight,
        .discount = request->discount,
        .n_step = settings->n_step,
        .gamma = settings->gamma,
    };
}

gpur_status gpur_gather_locked(void *context)
{
    const gpur_gather_work *const work = context;
    const gpur_rows_plan *const plan = &work->source->plan;
    gpur_replay *const replay = work->source->batch->replay;
    if (plan->lanes.count > 0)
        return gpur_lane_store_draw(gpur_replay_lanes(replay), work->stream, &plan->lanes);
    return gpur_gather_plan_launch(replay, work->stream, &plan->ring);
}

/* Zeroes a source, and returns the request of its gather, for which `fields` gets what is gathered: it must outlive the
 * request. */
static gpur_gather_request begin(gpur_batch_source *source, const struct gpur_train_step *step,
                                 const gpur_train_batch *batch, int is_raw, const int64_t *ids,
                                 gpur_gather_field fields[GPUR_MAX_TRAIN_FIELDS])
{
    memset(source, 0, sizeof *source);
    source->step = step;
    source->batch = batch;
    return (gpur_gather_request){
        .fields = fields,
        .field_count = gpur_train_batch_fields(batch, is_raw, fields),
        .source = GPUR_GATHER_IDS,
        .ids = ids,
        .rows = batch->rows,
        .id = batch->id,
        .weight = batch->weight,
        .discount = batch->discount,
        .links = batch->links,
    };
}

/* Plans the gather of a source from the replay. If is_preprocessed, it preprocesses observations instead of copying
 * them. */
static gpur_status plan_source(gpur_batch_source *source, gpur_gather_request *request)
{
    const gpur_train_batch *const batch = source->batch;
    const gpur_lane_store *const lanes = gpur_replay_lanes(batch->replay);
    const gpur_preprocess_output observed = {&batch->input.args, batch->wants & GPUR_WANTS_OBS ? batch->x : NULL,
                                             batch->next_x};
    source->is_raw = !batch->is_preprocessed;
    if (lanes) {
        plan_lanes(batch, request, &source->plan);
        source->drawable = &lanes->lanes.state->whole;
        return GPUR_OK;
    }
    request->preprocess = batch->is_preprocessed ? &observed : NULL;
    GPUR_TRY(gpur_gather_plan_prepare(batch->replay, request, &source->plan.ring));
    source->drawable = &source->plan.ring.rows.window->count;
    return GPUR_OK;
}

/* The rows of lanes are drawn, too. */
static void draw_lanes(gpur_batch_source *source, int32_t index_source)
{
    gpur_lane_batch *const lanes = &source->plan.lanes;
    lanes->ids = NULL;
    lanes->index_source = index_source;
    lanes->purpose = source->sampler->purpose[source->sample.user];
    lanes->seed = source->sample.seed;
    lanes->step = source->sample.step;
    lanes->leaf = source->sample.leaf;
    lanes->beta = source->sample.beta;
}

gpur_status gpur_batch_source_of_samples(gpur_batch_source *source, const struct gpur_train_step *step,
                                         const gpur_train_batch *batch, int32_t index_source,
                                         const gpur_sample_args *sample)
{
    const gpur_sampler *const sampler = gpur_sampler_of(index_source);
    gpur_gather_field fields[GPUR_MAX_TRAIN_FIELDS];
    gpur_gather_request request = begin(source, step, batch, !batch->is_preprocessed, batch->id, fields);
    source->sampler = sampler;
    source->sample = *sample;
    source->has_feedback = sampler->is_by_priority;
    request.source = sampler->gather_source;
    request.purpose = sampler->purpose[sample->user];
    request.seed = sample->seed;
    request.step = sample->step;
    GPUR_TRY(plan_source(source, &request));
    if (source->plan.lanes.count > 0)
        draw_lanes(source, index_source);
    return GPUR_OK;
}

gpur_status gpur_batch_source_of_ids(gpur_batch_source *source, const struct gpur_train_step *step,
                                     const gpur_train_batch *batch, const int64_t *ids)
{
    gpur_gather_field fields[GPUR_MAX_TRAIN_FIELDS];
    gpur_gather_request request = begin(source, step, batch, !batch->is_preprocessed, ids, fields);
    source->has_feedback = gpur_replay_priorities(batch->replay)->device != NULL;
    return plan_source(source, &request);
}

/* Rows of the ring start at multiples of 64 bytes, packed rows only at multiples of their size: copies that were
 * planned in units of 16 bytes may need smaller ones. */
static void fit_units(gpur_gather_args *gather)
{
    gather->units = 0;
    for (int32_t i = 0; i < gather->copy_count; i++) {
        gpur_field_copy *const copy = &gather->copies[i];
        for (; gather->pitch % (1 << copy->shift) != 0; copy->shift--)
            copy->units *= 2;
        copy->first_unit = gather->units;
        gather->units += copy->units;
    }
}

/* The rows serve as a ring of B rows, of which all ids are gathered. */
gpur_status gpur_batch_source_of_rows(gpur_batch_source *source, const struct gpur_train_step *step,
                                      const gpur_train_batch *batch, const gpur_packed_rows *packed)
{
    gpur_gather_field fields[GPUR_MAX_TRAIN_FIELDS];
    const gpur_gather_request request = begin(source, step, batch, 1, packed->ids, fields);
    gpur_gather_args *const gather = &source->plan.ring.rows;
    source->is_raw = 1;
    GPUR_TRY(gpur_gather_prepare_packed(batch->replay, &request, gather));
    gather->window = packed->window;
    source->drawable = &packed->window->count;
    gather->ring = packed->rows;
    gather->pitch = packed->row_bytes;
    gather->capacity = batch->rows;
    fit_units(gather);
    return GPUR_OK;
}

static gpur_status gather(const gpur_batch_source *source, gpur_stream *stream)
{
    gpur_gather_work work = {source, stream};
    if (source->gather)
        return source->gather(source, stream);
    if (source->sampler && source->plan.lanes.count == 0)
        return gpur_sample_enqueue(source->batch->replay, source->sampler, &source->sample, &source->plan.ring, stream);
    return gpur_gather_locked(&work);
}

gpur_status gpur_batch_source_gather(const gpur_batch_source *source, gpur_stream *stream)
{
    GPUR_TRY(gather(source, stream));
    return source->beside ? gather(source->beside, stream) : GPUR_OK;
}
