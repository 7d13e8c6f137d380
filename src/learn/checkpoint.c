/* SPDX-License-Identifier: MIT */
#include "learn/checkpoint.h"

#include "learn/learner.h"
#include "replay/sampler/consumer.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Adds a section for each tensor of an array. `memory`, (P) in host memory, replaces the array's own; NULL: the
 * array's. */
static gpur_status add_array(const gpur_params *params, const gpur_saved_array *a, float *memory,
                             gpur_sections *sections)
{
    char name[GPUR_TENSOR_NAME];
    for (int32_t i = 0; i < params->tensor_count; i++) {
        const gpur_tensor *const tensor = &params->tensor[i];
        float *const at = (memory ? memory : a->memory) + tensor->offset;
        const gpur_piece piece = {at, gpur_tensor_count(tensor) * (int64_t)sizeof(float), !memory};
        snprintf(name, sizeof name, "%s.%s", a->name, tensor->name);
        GPUR_TRY(
            gpur_sections_add(sections, name, GPUR_F32, tensor->units, tensor->is_bias ? 0 : tensor->inputs, piece));
    }
    return GPUR_OK;
}

gpur_status gpur_saved_arrays_add_sections(const gpur_saved_arrays *arrays, const gpur_params *params, float *host,
                                           gpur_sections *sections)
{
    for (int32_t i = 0; i < arrays->count; i++)
        GPUR_TRY(add_array(params, &arrays->list[i], host ? host + i * params->count : NULL, sections));
    return GPUR_OK;
}

static gpur_status add_sections(const gpur_learner *learner, float *host, gpur_sections *sections)
{
    const gpur_saved_arrays arrays = gpur_learner_saved_arrays(learner);
    return gpur_saved_arrays_add_sections(&arrays, &learner->network.params, host, sections);
}

typedef struct learner_state {
    gpur_train_state train;
    uint64_t act_counter;
    int64_t acts, steps_enqueued;
} learner_state;

#define SCALAR(state, name, type)                                                                                      \
    {                                                                                                                  \
#name, GPUR_SCALAR_##type, &(state)->name                                                                      \
    }
#define STATE_SCALARS(state)                                                                                           \
    {                                                                                                                  \
        SCALAR(&(state)->train, step, U64), SCALAR(&(state)->train, skipped, I64),                                     \
            SCALAR(&(state)->train, target_copies, I64), SCALAR(&(state)->train, invalid_actions, I64),                \
            SCALAR(&(state)->train, beta1_power, F64), SCALAR(&(state)->train, beta2_power, F64),                      \
            SCALAR(&(state)->train, loss_sum, F64), SCALAR(&(state)->train, next_learning_rate, F32),                  \
            SCALAR(&(state)->train, copy_due, I32), SCALAR(&(state)->train, loss, F32),                                \
            SCALAR(&(state)->train, mean_q, F32), SCALAR(&(state)->train, gradient_norm, F32),                         \
            SCALAR(&(state)->train, learning_rate, F32), SCALAR(state, act_counter, U64), SCALAR(state, acts, I64),    \
            SCALAR(state, steps_enqueued, I64),                                                                        \
    }

static gpur_status add_layer(gpur_tensors *settings, const char *owner, int32_t index, const gpur_layer *layer)
{
    char key[48];
    snprintf(key, sizeof key, "%slayer.%d", owner, (int)index);
    if (layer->kind == GPUR_DENSE)
        return gpur_tensors_add_metadata(settings, key, "dense %d, activation %d", (int)layer->units,
                                         (int)layer->activation);
    return gpur_tensors_add_metadata(settings, key, "convolution %d of %d, stride %d, padding %d, activation %d",
                                     (int)layer->units, (int)layer->kernel, (int)layer->stride, (int)layer->padding,
                                     (int)layer->activation);
}

#define HIDDEN_ACTIVATION "hidden_activation"

static gpur_status add_number(gpur_tensors *settings, const char *owner, const char *name, int64_t value)
{
    char key[48];
    snprintf(key, sizeof key, "%s%s", owner, name);
    return gpur_tensors_add_metadata(settings, key, "%" PRId64, value);
}

/* Arrays are saved in the device's order, which depends on the layers, so these settings must match. `has_activation`:
 * with that of the head's hidden layers. */
static gpur_status add_network(const gpur_network_config *network, const char *owner, gpur_tensors *settings,
                               int has_activation)
{
    for (int32_t i = 0; i < network->trunk_count; i++)
        GPUR_TRY(add_layer(settings, owner, i, &network->trunk[i]));
    GPUR_TRY(add_number(settings, owner, "layers", network->trunk_count));
    if (network->hidden > 0 && has_activation)
        GPUR_TRY(add_number(settings, owner, HIDDEN_ACTIVATION, network->hidden_activation));
    GPUR_TRY(add_number(settings, owner, "head", network->head));
    return add_number(settings, owner, "input_layout", network->input_layout);
}

gpur_status gpur_learn_file_add_settings(const gpur_network_config *network, const gpur_params *params,
                                         const char *owner, int32_t optimizer, gpur_tensors *settings,
                                         int has_activation)
{
    static const char *const kinds[] = {"adam",          "rmsprop-tf",       "rmsprop-keras2",
                                        "rmsprop-torch", "rmsprop-deepmind", "adam-tf"};
    char key[48];
    snprintf(key, sizeof key, "%soptimizer", owner);
    GPUR_TRY(gpur_tensors_add_metadata(settings, key, "%s", kinds[optimizer]));
    GPUR_TRY(add_network(network, owner, settings, has_activation));
    return add_number(settings, owner, "weights", gpur_params_weights(params));
}

static gpur_status add_settings(const gpur_learner *learner, gpur_tensors *settings, int has_activation)
{
    const gpur_learner_config *const config = &learner->config;
    return gpur_learn_file_add_settings(&config->network, &learner->network.params, "", config->optimizer.kind,
                                        settings, has_activation);
}

/* Reads the state after the last launch. Waits for it. */
static gpur_status read_state(gpur_learner *learner, gpur_stream *stream, learner_state *state)
{
    GPUR_TRY(gpur_copy(stream, &state->train, learner->step.optimizer.state, sizeof state->train));
    GPUR_TRY(gpur_stream_sync(stream));
    state->steps_enqueued = (int64_t)state->train.step + state->train.skipped;
    gpur_actor_get_counters(&learner->actor, &state->act_counter, &state->acts);
    return GPUR_OK;
}

static gpur_status save(gpur_learner *learner, gpur_stream *stream, gpur_tensors *tensors, gpur_sections *sections,
                        const char *path, const gpur_checkpoint_options *options)
{
    learner_state state;
    const gpur_scalar scalars[] = STATE_SCALARS(&state);
    GPUR_TRY(read_state(learner, stream, &state));
    GPUR_TRY(add_sections(learner, NULL, sections));
    GPUR_TRY(gpur_checkpoint_add_kind(tensors, "learner"));
    GPUR_TRY(add_settings(learner, tensors, 1));
    GPUR_TRY(gpur_scalars_write(tensors, scalars, sizeof scalars / sizeof *scalars));
    return gpur_checkpoint_write(learner->device, stream, sections, tensors, path, options);
}

gpur_status gpur_learner_save(gpur_learner *learner, const char *path, const gpur_checkpoint_options *given)
{
    gpur_checkpoint_options options;
    gpur_stream *stream = NULL;
    gpur_tensors tensors = {0};
    gpur_sections sections = {0};
    GPUR_TRY(gpur_checkpoint_check_call(learner, "learner", path, given, &options));
    GPUR_TRY(gpur_consumer_begin(learner->replay, gpur_consumer_without_publishing, &stream));
    const gpur_status status = save(learner, stream, &tensors, &sections, path, &options);
    const gpur_status ended = gpur_consumer_end(learner->replay, status);
    gpur_sections_free(&sections);
    gpur_tensors_free(&tensors);
    return ended;
}

typedef struct loading {
    gpur_checkpoint file;
    gpur_tensors settings;
    gpur_sections sections;
    learner_state state;
    float *host; /* (arrays, P) */
    size_t bytes;
} loading;

/* Compares the settings, and allocates host memory into which the whole file is read. It is checked there before the
 * learner is changed, so a failure changes nothing. The first files did not record hidden_activation. */
static gpur_status prepare(loading *load, gpur_learner *learner)
{
    const gpur_scalar scalars[] = STATE_SCALARS(&load->state);
    const int has_activation = gpur_tensors_find_metadata(&load->file.tensors, HIDDEN_ACTIVATION) != NULL;
    GPUR_TRY(add_settings(learner, &load->settings, has_activation));
    GPUR_TRY(gpur_checkpoint_compare(&load->file, "learner", "this learner", &load->settings, scalars,
                                     sizeof scalars / sizeof *scalars));
    const int32_t count = gpur_learner_saved_arrays(learner).count;
    load->bytes = (size_t)(count * learner->network.params.count) * sizeof(float);
    load->host = gpur_host_alloc(learner->device, load->bytes);
    if (!load->host)
        return gpur_fail(GPUR_OUT_OF_MEMORY, "no host memory for %zu bytes of a learner's file", load->bytes);
    GPUR_TRY(add_sections(learner, load->host, &load->sections));
    return gpur_checkpoint_match(&load->file, &load->sections, "this learner", 1);
}

/* Weights, those for acting included, must be finite. The optimizer's moments may be infinite after an overflow, but
 * not NaN, which would spoil the weights at the next step. */
static gpur_status check_array(const gpur_params *params, const gpur_saved_array *a, const float *values)
{
    char before[32];
    snprintf(before, sizeof before, "%s.", a->name);
    const int is_optimizers = strstr(a->name, "optimizer.") != NULL;
    for (int32_t i = 0; i < params->tensor_count; i++)
        GPUR_TRY(gpur_tensor_check_numbers(&params->tensor[i], before, values + params->tensor[i].offset, is_optimizers,
                                           GPUR_FILE_ERROR));
    return GPUR_OK;
}

gpur_status gpur_saved_arrays_check(const gpur_saved_arrays *arrays, const gpur_params *params, const float *host,
                                    const gpur_checkpoint *file)
{
    gpur_status status = GPUR_OK;
    for (int32_t i = 0; i < arrays->count && status == GPUR_OK; i++)
        status = check_array(params, &arrays->list[i], host + i * params->count);
    return gpur_checkpoint_add_path_to_error(file, status);
}

static gpur_status check_arrays(const loading *load, const gpur_learner *learner)
{
    const gpur_saved_arrays arrays = gpur_learner_saved_arrays(learner);
    return gpur_saved_arrays_check(&arrays, &learner->network.params, load->host, &load->file);
}

/* Publishing overwrites the older acting copy. So the file's older copy is published first, and becomes the older one
 * when the current weights are published. */
static gpur_status enqueue_upload(const loading *load, gpur_learner *learner, gpur_stream *stream)
{
    const gpur_saved_arrays arrays = gpur_learner_saved_arrays(learner);
    const int64_t weights = learner->network.params.count;
    const int32_t last = arrays.count - 1;
    for (int32_t i = 0; i < last; i++)
        GPUR_TRY(gpur_copy(stream, arrays.list[i].memory, load->host + i * weights, weights * (int64_t)sizeof(float)));
    GPUR_TRY(gpur_optimizer_round(&learner->step.optimizer, stream));
    GPUR_TRY(gpur_actor_publish(&learner->actor, stream, load->host + last * weights));
    GPUR_TRY(gpur_actor_publish(&learner->actor, stream, gpur_learner_acting_weights(learner)));
    return gpur_copy(stream, learner->step.optimizer.state, &load->state.train, sizeof load->state.train);
}

/* Waits even after a failure, because enqueued copies read host memory. */
static gpur_status upload(const loading *load, gpur_learner *learner, gpur_stream *stream)
{
    const gpur_status status = enqueue_upload(load, learner, stream);
    const gpur_status done = gpur_stream_sync(stream);
    GPUR_TRY(status);
    GPUR_TRY(done);
    gpur_train_stats_restore(&learner->train_stats, &load->state.train, load->state.steps_enqueued);
    gpur_actor_set_counters(&learner->actor, load->state.act_counter, load->state.acts);
    atomic_store(&learner->returns.is_filled, 0); /* files do not have the cache */
    return GPUR_OK;
}

static gpur_status load_opened(loading *load, gpur_learner *learner, const gpur_checkpoint_options *options)
{
    gpur_stream *stream = NULL;
    int touched = 0;
    GPUR_TRY(prepare(load, learner));
    GPUR_TRY(gpur_consumer_begin(learner->replay, gpur_consumer_without_publishing, &stream));
    gpur_status status = gpur_stream_sync(stream);
    if (status == GPUR_OK)
        status = gpur_checkpoint_fill(&load->file, learner->device, stream, &load->sections, options, &touched);
    if (status == GPUR_OK)
        status = check_arrays(load, learner);
    if (status == GPUR_OK)
        status = upload(load, learner, stream);
    return gpur_consumer_end(learner->replay, status);
}

gpur_status gpur_learner_load(gpur_learner *learner, const char *path, const gpur_checkpoint_options *given)
{
    gpur_checkpoint_options options;
    loading load = {0};
    GPUR_TRY(gpur_checkpoint_check_call(learner, "learner", path, given, &options));
    GPUR_TRY(gpur_checkpoint_open(&load.file, path));
    const gpur_status status = load_opened(&load, learner, &options);
    gpur_host_free(learner->device, load.host, load.bytes);
    gpur_sections_free(&load.sections);
    gpur_tensors_free(&load.settings);
    gpur_checkpoint_close(&load.file);
    return status;
}

/* Reads the online weights alone. The other arrays of the file are as many as the learner's optimizer needed. */
static gpur_status read_online(gpur_checkpoint *file, gpur_device *device, gpur_stream *stream,
                               const gpur_params *params, const gpur_checkpoint_options *options, float *weights)
{
    const gpur_saved_array online = {"online", NULL};
    gpur_sections sections = {0};
    int touched = 0;
    gpur_status status = add_array(params, &online, weights, &sections);
    if (status == GPUR_OK)
        status = gpur_checkpoint_match(file, &sections, "this policy", file->tensors.count - sections.count);
    if (status == GPUR_OK)
        status = gpur_checkpoint_fill(file, device, stream, &sections, options, &touched);
    gpur_sections_free(&sections);
    GPUR_TRY(status);
    return gpur_checkpoint_add_path_to_error(file,
                                             gpur_params_check_numbers(params, "online.", weights, GPUR_FILE_ERROR));
}

gpur_status gpur_learner_file_load_weights(gpur_checkpoint *file, const char *kind, gpur_device *device,
                                           gpur_stream *stream, const gpur_network_config *config,
                                           const gpur_params *params, const gpur_checkpoint_options *options,
                                           float *weights, int64_t *steps)
{
    const gpur_scalar scalar = {"steps_enqueued", GPUR_SCALAR_I64, steps};
    const int has_activation = gpur_tensors_find_metadata(&file->tensors, HIDDEN_ACTIVATION) != NULL;
    gpur_tensors settings = {0};
    gpur_status status = add_network(config, "", &settings, has_activation);
    if (status == GPUR_OK)
        status = gpur_checkpoint_compare(file, kind, "this policy", &settings, &scalar, 1);
    if (status == GPUR_OK)
        status = read_online(file, device, stream, params, options, weights);
    gpur_tensors_free(&settings);
    return status;
}
