/* SPDX-License-Identifier: MIT */
/* The files of learners: gpur_learner_save and gpur_learner_load. */
#include "learn/learner.h"
#include "learn/learner_file.h"

#include <math.h>
#include <stdio.h>

/* Adds an array, unless there is none. */
static void add(gpur_saved_arrays *arrays, const char *before, const char *name, float *memory)
{
    if (!memory)
        return;
    gpur_saved_array *const array = &arrays->list[arrays->count++];
    snprintf(array->name, sizeof array->name, "%s%s", before, name);
    array->memory = memory;
}

/* Lists the arrays of a network in a file. The older acting copy is saved; the latest equals the weights for acting. */
static gpur_saved_arrays arrays_of(const gpur_learner *learner, int i)
{
    const gpur_trained *const n = &learner->networks[i];
    const gpur_optimizer *const o = n->optimizer;
    gpur_saved_arrays arrays = {.count = 0};
    if (!n->shares_weights) {
        add(&arrays, n->file_name, "online", o->weights);
        add(&arrays, n->file_name, "target", o->target);
    }
    add(&arrays, n->moments, "square", o->square);
    add(&arrays, n->moments, "mean", o->mean);
    add(&arrays, n->moments, "velocity", o->velocity);
    if (i == 0 && learner->acting)
        add(&arrays, "", "acting", learner->acting->copies.weights[1 - learner->acting->copies.latest]);
    return arrays;
}

static gpur_status add_settings(const void *given, gpur_tensors *settings)
{
    const gpur_learner *const learner = given;
    for (int i = 0; i < learner->network_count; i++) {
        const gpur_trained *const n = &learner->networks[i];
        if (!n->shares_weights)
            GPUR_TRY(gpur_learner_file_add_network(n->config, &n->network->params, n->file_name,
                                                   n->optimizer->config.kind, settings));
    }
    return learner->algorithm->add_settings ? learner->algorithm->add_settings(learner, settings) : GPUR_OK;
}

/* `scalars` gets those of a state. */
static gpur_learner_file file_of(const gpur_learner *learner, gpur_learner_state *state, gpur_scalar *scalars)
{
    gpur_learner_file file = {.device = learner->device,
                              .kind = learner->algorithm->kind,
                              .scalars = scalars,
                              .scalar_count = learner->algorithm->list_scalars(state, scalars),
                              .network_count = learner->network_count,
                              .add_settings = add_settings,
                              .learner = learner,
                              .text = {learner->networks[0].config, learner->obs, learner->policy_floor}};
    for (int i = 0; i < learner->network_count; i++) {
        file.networks[i].arrays = arrays_of(learner, i);
        file.networks[i].params = &learner->networks[i].network->params;
    }
    return file;
}

/* Reads the state after the last launch. Waits for it. */
static gpur_status read_state(gpur_learner *learner, gpur_stream *stream, gpur_learner_state *state)
{
    const gpur_train_state *const main = &state->train[learner->main];
    for (int i = 0; i < learner->network_count; i++)
        GPUR_TRY(gpur_copy(stream, &state->train[i], learner->networks[i].optimizer->state, sizeof state->train[i]));
    GPUR_TRY(gpur_stream_sync(stream));
    state->steps_enqueued = (int64_t)main->step + main->skipped;
    if (learner->acting)
        gpur_policy_get_counters(learner->acting, &state->act_counter, &state->acts);
    return GPUR_OK;
}

static gpur_status save(gpur_learner *learner, gpur_stream *stream, const char *path,
                        const gpur_checkpoint_options *options)
{
    gpur_learner_state state;
    gpur_scalar scalars[GPUR_MAX_LEARNER_SCALARS];
    const gpur_learner_file file = file_of(learner, &state, scalars);
    GPUR_TRY(read_state(learner, stream, &state));
    GPUR_TRY(gpur_prefix_error(gpur_learner_check_finite(learner), "%s is not written", path));
    return gpur_learner_file_write(&file, stream, path, options);
}

gpur_status gpur_learner_save(gpur_learner *learner, const char *path, const gpur_checkpoint_options *given)
{
    gpur_checkpoint_options options;
    gpur_stream *stream = NULL;
    GPUR_TRY(gpur_checkpoint_check_call(learner, "learner", path, given, &options));
    GPUR_TRY(gpur_learner_begin(learner, &stream));
    return gpur_learner_end(learner, save(learner, stream, path, &options));
}

/* A write of the acting copies overwrites the older one, the last array of the first network. So the file's older copy
 * is written first, and becomes the older one when the current weights are written. */
static gpur_status enqueue_acting(gpur_learner *learner, const gpur_learner_loading *load, int32_t last,
                                  gpur_stream *stream)
{
    const float *const older = load->host + last * learner->networks[0].network->params.count;
    GPUR_TRY(gpur_policy_enqueue_write(learner->acting, stream, older, 0));
    return gpur_policy_enqueue_write(learner->acting, stream, gpur_learner_acting_weights(learner), 0);
}

static gpur_status enqueue_upload(const gpur_learner_file *file, const gpur_learner_loading *load,
                                  const gpur_learner_state *state, gpur_learner *learner, gpur_stream *stream)
{
    gpur_learner_file others = *file;
    const int32_t last = others.networks[0].arrays.count - 1;
    if (learner->acting)
        others.networks[0].arrays.count = last;
    GPUR_TRY(gpur_learner_file_enqueue_upload(&others, load, stream));
    for (int i = 0; i < learner->network_count; i++) {
        GPUR_TRY(gpur_optimizer_round(learner->networks[i].optimizer, stream));
        GPUR_TRY(gpur_copy(stream, learner->networks[i].optimizer->state, &state->train[i], sizeof state->train[i]));
    }
    return learner->acting ? enqueue_acting(learner, load, last, stream) : GPUR_OK;
}

static void restore(gpur_learner *learner, const gpur_learner_state *state)
{
    for (int i = 0; i < learner->network_count; i++)
        if (!learner->networks[i].shares_weights)
            gpur_train_stats_restore(&learner->stats[i], &state->train[i], state->steps_enqueued);
    if (learner->acting)
        gpur_policy_set_counters(learner->acting, state->act_counter, state->acts);
    if (learner->algorithm->after_load)
        learner->algorithm->after_load(learner);
}

/* Waits even after a failure, because enqueued copies read host memory. */
static gpur_status load_opened(gpur_learner_loading *load, gpur_learner *learner, gpur_stream *stream,
                               const gpur_checkpoint_options *options)
{
    gpur_learner_state state = {.train = {{.finite_loss = NAN}, {.finite_loss = NAN}}};
    gpur_scalar scalars[GPUR_MAX_LEARNER_SCALARS];
    const gpur_learner_file file = file_of(learner, &state, scalars);
    GPUR_TRY(gpur_learner_file_read(&file, load, stream, options));
    if (learner->algorithm->complete)
        learner->algorithm->complete(&state);
    const gpur_status status = enqueue_upload(&file, load, &state, learner, stream);
    const gpur_status done = gpur_stream_sync(stream);
    GPUR_TRY(status);
    GPUR_TRY(done);
    restore(learner, &state);
    return GPUR_OK;
}

gpur_status gpur_learner_load(gpur_learner *learner, const char *path, const gpur_checkpoint_options *given)
{
    gpur_checkpoint_options options;
    gpur_stream *stream = NULL;
    gpur_learner_loading load = {.bytes = 0};
    GPUR_TRY(gpur_checkpoint_check_call(learner, "learner", path, given, &options));
    GPUR_TRY(gpur_checkpoint_open(&load.file, path));
    gpur_status status = gpur_learner_begin(learner, &stream);
    if (status == GPUR_OK)
        status = gpur_learner_end(learner, load_opened(&load, learner, stream, &options));
    gpur_learner_loading_close(&load, learner->device);
    return status;
}
