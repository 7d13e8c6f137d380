/* SPDX-License-Identifier: MIT */
#include "learn/train_step.h"

#include "learn/returns/return_cache.h"
#include "replay/view.h"

#include <string.h>

/* 1: there is the source `by_ids`. */
static int takes_ids(const gpur_train_step *step)
{
    return step->algorithm == &gpur_algorithm_dqn && !gpur_replay_lanes(step->batch.replay);
}

static int64_t ids_bytes(const gpur_train_step *step)
{
    return !takes_ids(step) ? 0 : step->config.batch_size * (int64_t)sizeof *step->ids;
}

static gpur_status open(void *part, const gpur_part_context *context)
{
    gpur_train_step *const step = part;
    void *ids = NULL;
    step->device = context->device;
    step->network = context->network;
    step->config = *context->config;
    step->cache = context->cache;
    step->algorithm = context->algorithm;
    step->dpg = context->dpg;
    gpur_train_batch_open(&step->batch, step->device, context->replay, step->network, &step->config, context->fields,
                          gpur_return_cache_is_physical(step->cache) ? step->algorithm->wants | GPUR_WANTS_RAW
                                                                     : step->algorithm->wants);
    gpur_optimizer_open(&step->optimizer, step->device, &step->config.optimizer, &step->network->params);
    if (!step->cache)
        gpur_optimizer_set_target(&step->optimizer, step->config.target_period, step->config.target_copy_first);
    GPUR_TRY(gpur_side_open(&step->side, step->device));
    GPUR_TRY(step->algorithm->open(step));
    if (!takes_ids(step))
        return GPUR_OK;
    GPUR_TRY(gpur_event_create(step->device, &step->ids_copied));
    GPUR_TRY(gpur_pinned_alloc(step->device, ids_bytes(step), "the ids of a train step", &ids));
    step->host_ids = ids;
    return GPUR_OK;
}

static void close(void *part)
{
    gpur_train_step *const step = part;
    gpur_graph_destroy(step->sampled.train);
    gpur_graph_destroy(step->by_ids.train);
    step->algorithm->close(step);
    gpur_side_close(&step->side);
    gpur_event_destroy(step->ids_copied);
    gpur_pinned_free(step->device, step->host_ids);
}

static void assign(void *part, gpur_arena *arena)
{
    gpur_train_step *const step = part;
    gpur_optimizer_assign(&step->optimizer, arena, NULL);
    gpur_train_batch_assign(&step->batch, arena);
    if (takes_ids(step))
        step->ids = gpur_arena_alloc(arena, ids_bytes(step));
    if (gpur_sampler_of(step->config.index_source)->is_by_priority)
        step->leaf = gpur_arena_alloc(arena, step->batch.rows * (int64_t)sizeof *step->leaf);
    step->algorithm->assign(step, arena);
    step->workspace = gpur_arena_alloc(arena, step->algorithm->workspace(step));
    if (step->side.stream)
        step->side.workspace = gpur_arena_alloc(arena, step->algorithm->workspace(step));
}

static gpur_status connect_cache(gpur_train_step *step)
{
    GPUR_TRY(gpur_batch_source_of_cache(&step->sampled, step));
    step->optimizer.drawable = step->sampled.drawable;
    return GPUR_OK;
}

static gpur_status connect(void *part)
{
    gpur_train_step *const step = part;
    if (step->cache)
        return connect_cache(step);
    const gpur_sample_args sample = {
        .user = GPUR_USER_LEARNER,
        .seed = step->config.seed,
        .beta = step->config.beta,
        .step = &step->optimizer.state->step,
        .id = step->batch.id,
        .leaf = step->leaf,
        .weight = step->batch.weight,
    };
    const gpur_sampler *const sampler = gpur_sampler_of(step->config.index_source);
    GPUR_TRY(gpur_batch_source_of_samples(&step->sampled, step, sampler, &sample));
    step->optimizer.drawable = step->sampled.drawable;
    return takes_ids(step) ? gpur_batch_source_of_ids(&step->by_ids, step, step->ids) : GPUR_OK;
}

/* Trains on the batch, whose rows have been gathered. */
static gpur_status train(const gpur_batch_source *source, gpur_stream *stream)
{
    const gpur_train_step *const step = source->step;
    if (source->is_raw)
        GPUR_TRY(gpur_train_batch_preprocess(&step->batch, stream));
    return step->algorithm->train(step, stream, source->drawable);
}

static gpur_status write_priorities(const gpur_batch_source *source, gpur_stream *stream)
{
    const gpur_train_step *const step = source->step;
    const gpur_train_batch *const batch = &step->batch;
    if (!source->has_feedback)
        return GPUR_OK;
    return gpur_priorities_update(gpur_replay_priorities(batch->replay), stream, batch->rows, batch->id,
                                  step->algorithm->errors(step), 1);
}

/* The record function for rows that have been gathered. */
static gpur_status record_gathered(void *context, gpur_stream *stream)
{
    const gpur_batch_source *const source = context;
    GPUR_TRY(train(source, stream));
    return write_priorities(source, stream);
}

static gpur_status start(void *part, gpur_stream *stream)
{
    gpur_train_step *const step = part;
    (void)stream;
    if (step->config.step_kernel != GPUR_STEP_FUSED)
        GPUR_TRY(gpur_graph_create(step->device, gpur_train_step_record, &step->sampled, step->config.unroll,
                                   &step->sampled.train));
    if (!takes_ids(step))
        return GPUR_OK;
    return gpur_graph_create(step->device, record_gathered, &step->by_ids, 1, &step->by_ids.train);
}

static int64_t pinned_bytes(const void *part)
{
    return ids_bytes(part);
}

static void save(const void *part, gpur_saved_arrays *arrays)
{
    const gpur_optimizer *const optimizer = &((const gpur_train_step *)part)->optimizer;
    gpur_saved_arrays_add(arrays, "online", optimizer->weights);
    gpur_saved_arrays_add(arrays, "target", optimizer->target);
    gpur_saved_arrays_add(arrays, "optimizer.square", optimizer->square);
    gpur_saved_arrays_add(arrays, "optimizer.mean", optimizer->mean);
    gpur_saved_arrays_add(arrays, "optimizer.velocity", optimizer->velocity);
}

const gpur_part gpur_step_part = {
    .open = open,
    .assign = assign,
    .connect = connect,
    .start = start,
    .close = close,
    .pinned_bytes = pinned_bytes,
    .save = save,
};

gpur_status gpur_step_upload_ids(gpur_train_step *step, gpur_stream *stream, const int64_t *ids)
{
    GPUR_TRY(gpur_event_sync(step->ids_copied)); /* the ids of the call before have left the pinned memory */
    memcpy(step->host_ids, ids, (size_t)ids_bytes(step));
    GPUR_TRY(gpur_copy(stream, step->ids, step->host_ids, ids_bytes(step)));
    return gpur_event_record(step->ids_copied, stream);
}

static gpur_status gather_and_train(void *context, gpur_stream *stream)
{
    GPUR_TRY(gpur_batch_source_gather(context, stream));
    return train(context, stream);
}

gpur_status gpur_train_step_warm_up(gpur_train_step *step, gpur_stream *stream)
{
    return gpur_run_first(stream, gather_and_train, &step->sampled);
}

gpur_status gpur_train_step_record(void *context, gpur_stream *stream)
{
    GPUR_TRY(gpur_batch_source_gather(context, stream));
    return record_gathered(context, stream);
}
