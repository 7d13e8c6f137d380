/* SPDX-License-Identifier: MIT */
/* The files of learners, which learners save and load, and policies load. A file has the arrays of all optimizers,
 * tensor by tensor, the settings that must match, and counters. */
#include "learn/learner.h"
#include "learn/weights_file.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MAX_ARRAYS = GPUR_MAX_NETWORKS * 6 };

/* An array of all parameters of a network, padding included. */
typedef struct saved_array {
    char name[32]; /* before the tensors' names: "online", "critic.optimizer.mean" */
    float *memory; /* (P) device */
    const gpur_params *params;
} saved_array;

typedef struct saved_arrays {
    saved_array list[MAX_ARRAYS];
    int32_t count;
} saved_arrays;

/* Adds an array, unless there is none. */
static void add(saved_arrays *arrays, const gpur_trained *n, const char *of, const char *name, float *memory)
{
    if (!memory)
        return;
    saved_array *const array = &arrays->list[arrays->count++];
    snprintf(array->name, sizeof array->name, "%s%s%s", n->file_name, of, name);
    array->memory = memory;
    array->params = &n->network->params;
}

/* Lists the arrays of a file. The older acting copy is saved, as the last one; the latest equals the weights for
 * acting. */
static saved_arrays arrays_of(const gpur_learner *learner)
{
    saved_arrays arrays = {.count = 0};
    for (int i = 0; i < learner->network_count; i++) {
        const gpur_trained *const n = &learner->networks[i];
        const gpur_optimizer *const o = n->optimizer;
        const char *const moments = n->shares_weights ? "optimizer.value." : "optimizer.";
        if (!n->shares_weights) {
            add(&arrays, n, "", "online", o->weights);
            add(&arrays, n, "", "target", o->target);
        }
        add(&arrays, n, moments, "square", o->square);
        add(&arrays, n, moments, "mean", o->mean);
        add(&arrays, n, moments, "velocity", o->velocity);
    }
    if (learner->acting)
        add(&arrays, learner->networks, "", "acting",
            learner->acting->copies.weights[1 - learner->acting->copies.latest]);
    return arrays;
}

/* Adds a section for each tensor of an array, without the padding between them. `name` stands before their names. */
static gpur_status add_array(const gpur_params *params, const char *name, float *memory, int on_device,
                             gpur_sections *sections)
{
    char full[GPUR_TENSOR_NAME];
    for (int32_t i = 0; i < params->tensor_count; i++) {
        const gpur_tensor *const tensor = &params->tensor[i];
        const gpur_piece piece = {memory + tensor->offset, gpur_tensor_count(tensor) * (int64_t)sizeof *memory,
                                  on_device};
        snprintf(full, sizeof full, "%s.%s", name, tensor->name);
        GPUR_TRY(
            gpur_sections_add(sections, full, GPUR_F32, tensor->units, tensor->is_bias ? 0 : tensor->inputs, piece));
    }
    return GPUR_OK;
}

/* Adds the sections of all arrays. `host`: all of them, one behind the other; NULL: their own memory, on the device. */
static gpur_status add_sections(const saved_arrays *arrays, float *host, gpur_sections *sections)
{
    for (const saved_array *a = arrays->list; a < arrays->list + arrays->count; a++) {
        GPUR_TRY(add_array(a->params, a->name, host ? host : a->memory, !host, sections));
        host = host ? host + a->params->count : NULL;
    }
    return GPUR_OK;
}

/* Weights, those for acting included, must be finite. The optimizer's moments may be infinite after an overflow, but
 * not NaN, which would spoil the weights at the next step. */
static gpur_status check_array(const saved_array *a, const float *values)
{
    char before[sizeof a->name + 1];
    snprintf(before, sizeof before, "%s.", a->name);
    const int is_optimizers = strstr(a->name, "optimizer.") != NULL;
    for (int32_t i = 0; i < a->params->tensor_count; i++)
        GPUR_TRY(gpur_tensor_check_numbers(&a->params->tensor[i], before, values + a->params->tensor[i].offset,
                                           is_optimizers, GPUR_FILE_ERROR));
    return GPUR_OK;
}

/* What must be equal in a file and in the learner that loads it. */
static gpur_status add_settings(const gpur_learner *learner, gpur_tensors *settings)
{
    static const char *const kinds[] = {"adam",          "rmsprop-tf",       "rmsprop-keras2",
                                        "rmsprop-torch", "rmsprop-deepmind", "adam-tf"};
    char key[48];
    for (int i = 0; i < learner->network_count; i++) {
        const gpur_trained *const n = &learner->networks[i];
        if (n->shares_weights)
            continue;
        snprintf(key, sizeof key, "%soptimizer", n->file_name);
        GPUR_TRY(gpur_tensors_add_metadata(settings, key, "%s", kinds[n->optimizer->config.kind]));
        if (n->config)
            GPUR_TRY(gpur_network_text_add_settings(n->config, n->file_name, settings));
        snprintf(key, sizeof key, "%sweights", n->file_name);
        GPUR_TRY(gpur_tensors_add_metadata(settings, key, "%" PRId64, gpur_params_weights(&n->network->params)));
    }
    return learner->algorithm->add_settings ? learner->algorithm->add_settings(learner, settings) : GPUR_OK;
}

/* Saving. */

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

static gpur_status check_device_array(gpur_device *device, gpur_stream *stream, const saved_array *array)
{
    float *host = NULL;
    GPUR_TRY(gpur_weights_alloc(device, array->params, &host));
    const int64_t bytes = array->params->count * (int64_t)sizeof *host;
    gpur_status status = gpur_stream_finish(stream, gpur_copy(stream, host, array->memory, bytes));
    if (status == GPUR_OK)
        status = check_array(array, host);
    gpur_weights_free(device, array->params, host);
    return status;
}

/* A file that no learner loads must not take the place of one that does. */
static gpur_status check_device_arrays(gpur_learner *learner, gpur_stream *stream, const saved_arrays *arrays)
{
    GPUR_TRY(gpur_learner_check_finite(learner));
    for (int32_t i = 0; i < arrays->count; i++)
        GPUR_TRY(check_device_array(learner->device, stream, &arrays->list[i]));
    return GPUR_OK;
}

static gpur_status write(gpur_learner *learner, gpur_stream *stream, gpur_tensors *tensors, gpur_sections *sections,
                         const char *path, const gpur_checkpoint_options *options)
{
    const saved_arrays arrays = arrays_of(learner);
    const gpur_network_text text = {learner->networks[0].config, learner->obs, learner->policy_floor};
    gpur_learner_state state;
    gpur_scalar scalars[GPUR_MAX_LEARNER_SCALARS];
    const int32_t count = learner->algorithm->list_scalars(learner, &state, scalars);
    GPUR_TRY(read_state(learner, stream, &state));
    GPUR_TRY(gpur_prefix_error(check_device_arrays(learner, stream, &arrays), "%s is not written", path));
    GPUR_TRY(add_sections(&arrays, NULL, sections));
    GPUR_TRY(gpur_checkpoint_add_kind(tensors, learner->algorithm->kind));
    GPUR_TRY(add_settings(learner, tensors));
    GPUR_TRY(gpur_network_text_add_rest(&text, tensors));
    GPUR_TRY(gpur_scalars_write(tensors, scalars, count));
    return gpur_checkpoint_write(learner->device, stream, sections, tensors, path, options);
}

gpur_status gpur_learner_save(gpur_learner *learner, const char *path, const gpur_checkpoint_options *given)
{
    gpur_checkpoint_options options;
    gpur_stream *stream = NULL;
    gpur_tensors tensors = {0};
    gpur_sections sections = {0};
    GPUR_TRY(gpur_checkpoint_check_call(learner, "learner", path, given, &options));
    GPUR_TRY(gpur_learner_begin(learner, &stream));
    const gpur_status status = write(learner, stream, &tensors, &sections, path, &options);
    gpur_sections_free(&sections);
    gpur_tensors_free(&tensors);
    return gpur_learner_end(learner, status);
}

/* Loading. */

/* A file that is being loaded: opened, and otherwise zeroed. */
typedef struct loading {
    gpur_checkpoint file;
    gpur_tensors settings;
    gpur_sections sections;
    float *host; /* all arrays, one behind the other */
    size_t bytes;
} loading;

static void close_loading(loading *load, gpur_device *device)
{
    gpur_host_free(device, load->host, load->bytes);
    gpur_sections_free(&load->sections);
    gpur_tensors_free(&load->settings);
    gpur_checkpoint_close(&load->file);
}

static gpur_status check_arrays(const saved_arrays *arrays, const float *host)
{
    for (int32_t i = 0; i < arrays->count; host += arrays->list[i++].params->count)
        GPUR_TRY(check_array(&arrays->list[i], host));
    return GPUR_OK;
}

/* Reads the whole file into host memory and checks it, so that a refusal leaves the learner unchanged, and sets the
 * state. Waits for the stream. */
static gpur_status read(loading *load, const gpur_learner *learner, gpur_stream *stream,
                        const gpur_checkpoint_options *options, gpur_learner_state *state)
{
    const saved_arrays arrays = arrays_of(learner);
    gpur_scalar scalars[GPUR_MAX_LEARNER_SCALARS];
    const int32_t count = learner->algorithm->list_scalars(learner, state, scalars);
    int touched = 0;
    GPUR_TRY(add_settings(learner, &load->settings));
    gpur_network_text_renew(&load->file.tensors);
    GPUR_TRY(gpur_checkpoint_compare(&load->file, learner->algorithm->kind, "this learner", &load->settings, scalars,
                                     count));
    for (int32_t i = 0; i < arrays.count; i++)
        load->bytes += (size_t)arrays.list[i].params->count * sizeof *load->host;
    load->host = gpur_host_alloc(learner->device, load->bytes);
    if (!load->host)
        return gpur_fail(GPUR_OUT_OF_MEMORY, "no host memory for %zu bytes of a learner's file", load->bytes);
    GPUR_TRY(add_sections(&arrays, load->host, &load->sections));
    GPUR_TRY(gpur_checkpoint_match(&load->file, &load->sections, "this learner", 1));
    GPUR_TRY(gpur_stream_sync(stream));
    GPUR_TRY(gpur_checkpoint_fill(&load->file, learner->device, stream, &load->sections, options, &touched));
    if (learner->algorithm->complete)
        learner->algorithm->complete(learner, state);
    return gpur_checkpoint_add_path_to_error(&load->file, check_arrays(&arrays, load->host));
}

/* A write of the acting copies overwrites the older one, which is the file's last array. So the file's older copy is
 * written first, and becomes the older one when the current weights are written. */
static gpur_status enqueue_upload(gpur_learner *learner, const float *host, const gpur_learner_state *state,
                                  gpur_stream *stream)
{
    const saved_arrays arrays = arrays_of(learner);
    const int32_t others = learner->acting ? arrays.count - 1 : arrays.count;
    for (int32_t i = 0; i < others; host += arrays.list[i++].params->count)
        GPUR_TRY(gpur_copy(stream, arrays.list[i].memory, host, arrays.list[i].params->count * (int64_t)sizeof *host));
    for (int i = 0; i < learner->network_count; i++) {
        GPUR_TRY(gpur_optimizer_round(learner->networks[i].optimizer, stream));
        GPUR_TRY(gpur_copy(stream, learner->networks[i].optimizer->state, &state->train[i], sizeof state->train[i]));
    }
    if (!learner->acting)
        return GPUR_OK;
    GPUR_TRY(gpur_policy_enqueue_write(learner->acting, stream, host, 0));
    return gpur_policy_enqueue_write(learner->acting, stream, gpur_learner_acting_weights(learner), 0);
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

static gpur_status load_opened(loading *load, gpur_learner *learner, gpur_stream *stream,
                               const gpur_checkpoint_options *options)
{
    gpur_learner_state state = {.train = {{.finite_loss = NAN}, {.finite_loss = NAN}, {.finite_loss = NAN}}};
    GPUR_TRY(read(load, learner, stream, options, &state));
    GPUR_TRY(gpur_stream_finish(stream, enqueue_upload(learner, load->host, &state, stream)));
    restore(learner, &state);
    return GPUR_OK;
}

gpur_status gpur_learner_load(gpur_learner *learner, const char *path, const gpur_checkpoint_options *given)
{
    gpur_checkpoint_options options;
    gpur_stream *stream = NULL;
    loading load = {.bytes = 0};
    GPUR_TRY(gpur_checkpoint_check_call(learner, "learner", path, given, &options));
    GPUR_TRY(gpur_checkpoint_open(&load.file, path));
    gpur_status status = gpur_learner_begin(learner, &stream);
    if (status == GPUR_OK)
        status = gpur_learner_end(learner, load_opened(&load, learner, stream, &options));
    close_loading(&load, learner->device);
    return status;
}

/* For policies. */

/* Reads the online weights alone. The other arrays of the file are as many as the learner's optimizer needed. */
static gpur_status read_online(gpur_policy *policy, gpur_checkpoint *file, const gpur_checkpoint_options *options,
                               float *weights)
{
    const gpur_params *const params = &policy->network.params;
    const int32_t index = gpur_policy_acquire(policy);
    gpur_sections sections = {0};
    int touched = 0;
    gpur_status status = add_array(params, "online", weights, 0, &sections);
    if (status == GPUR_OK)
        status = gpur_checkpoint_match(file, &sections, "this policy", file->tensors.count - sections.count);
    if (status == GPUR_OK)
        status =
            gpur_checkpoint_fill(file, policy->device, policy->inferences[index].stream, &sections, options, &touched);
    gpur_sections_free(&sections);
    gpur_policy_release(policy, index, 0);
    GPUR_TRY(status);
    return gpur_checkpoint_add_path_to_error(file,
                                             gpur_params_check_numbers(params, "online.", weights, GPUR_FILE_ERROR));
}

gpur_status gpur_learner_file_read(gpur_policy *policy, gpur_checkpoint *file, const char *kind,
                                   const gpur_checkpoint_options *options, float *weights, int64_t *steps)
{
    const gpur_scalar scalar = {GPUR_STEPS_ENQUEUED, GPUR_SCALAR_I64, steps};
    gpur_tensors settings = {0};
    gpur_status status = gpur_network_text_add_settings(&policy->config.network, "", &settings);
    gpur_network_text_renew(&file->tensors);
    if (status == GPUR_OK)
        status = gpur_checkpoint_compare(file, kind, "this policy", &settings, &scalar, 1);
    if (status == GPUR_OK)
        status = read_online(policy, file, options, weights);
    gpur_tensors_free(&settings);
    return status;
}
