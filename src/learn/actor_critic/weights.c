/* SPDX-License-Identifier: MIT */
/* The weights of an actor-critic by name, and its files. */
#include "learn/actor_critic/actor_critic.h"
#include "learn/checkpoint.h"
#include "learn/weights_file.h"

#include <inttypes.h>
#include <string.h>

int32_t gpur_actor_critic_weight_count(gpur_actor_critic *learner)
{
    return learner ? learner->network.params.tensor_count : 0;
}

gpur_status gpur_actor_critic_get_weight_info(gpur_actor_critic *learner, int32_t index, gpur_weight_info *info)
{
    GPUR_REQUIRE(learner && info, "learner and info must not be NULL");
    return gpur_weight_info_write(&learner->network.params, index, info);
}

static gpur_status find(const gpur_actor_critic *learner, const char *name, const float *values, int64_t count,
                        const gpur_tensor **tensor)
{
    GPUR_REQUIRE(learner && values, "learner and values must not be NULL");
    GPUR_TRY(gpur_params_find(&learner->network.params, name, tensor));
    GPUR_REQUIRE(count == gpur_tensor_count(*tensor), "count is %" PRId64 "; \"%s\" has %" PRId64 " numbers", count,
                 name, gpur_tensor_count(*tensor));
    return GPUR_OK;
}

/* Copies a tensor between the device and (count) host memory in the device's order. Waits, even after a failure. */
static gpur_status copy_tensor(gpur_actor_critic *learner, float *on_device, float *host, int64_t count, int to_device)
{
    const int64_t bytes = count * (int64_t)sizeof *host;
    gpur_stream *const stream = learner->gradient.stream;
    gpur_ticket_lock_lock(&learner->lock);
    gpur_status status =
        to_device ? gpur_copy(stream, on_device, host, bytes) : gpur_copy(stream, host, on_device, bytes);
    if (status == GPUR_OK && to_device)
        status = gpur_optimizer_round(&learner->optimizers[0], stream);
    const gpur_status done = gpur_stream_sync(stream);
    gpur_ticket_lock_unlock(&learner->lock);
    return status != GPUR_OK ? status : done;
}

gpur_status gpur_actor_critic_read_weights(gpur_actor_critic *learner, int32_t which, const char *name, float *values,
                                           int64_t count)
{
    const gpur_tensor *tensor = NULL;
    float *order = NULL;
    GPUR_TRY(find(learner, name, values, count, &tensor));
    GPUR_REQUIRE(which == GPUR_WEIGHTS_ONLINE || which == GPUR_WEIGHTS_GRADIENT,
                 "which is %" PRId32 "; GPUR_WEIGHTS_ONLINE (0) and GRADIENT (2) can be read", which);
    const gpur_params *const params = &learner->network.params;
    const gpur_optimizer *const optimizer = &learner->optimizers[0];
    float *const array = which == GPUR_WEIGHTS_ONLINE ? optimizer->weights : optimizer->gradient;
    GPUR_TRY(gpur_weights_alloc(learner->device, params, &order));
    const gpur_status status = copy_tensor(learner, array + tensor->offset, order, count, 0);
    if (status == GPUR_OK)
        gpur_tensor_to_shape_order(tensor, order, values);
    gpur_weights_free(learner->device, params, order);
    return status;
}

gpur_status gpur_actor_critic_write_weights(gpur_actor_critic *learner, int32_t which, const char *name,
                                            const float *values, int64_t count)
{
    const gpur_tensor *tensor = NULL;
    float *order = NULL;
    GPUR_TRY(find(learner, name, values, count, &tensor));
    GPUR_REQUIRE(which == GPUR_WEIGHTS_ONLINE, "which is %" PRId32 "; only GPUR_WEIGHTS_ONLINE (0) can be written",
                 which);
    GPUR_TRY(gpur_tensor_check_numbers(tensor, "", values, 0, GPUR_INVALID_ARGUMENT));
    const gpur_params *const params = &learner->network.params;
    GPUR_TRY(gpur_weights_alloc(learner->device, params, &order));
    gpur_tensor_to_device_order(tensor, values, order);
    const gpur_status status = copy_tensor(learner, learner->optimizers[0].weights + tensor->offset, order, count, 1);
    gpur_weights_free(learner->device, params, order);
    return status;
}

/* Files. */

/* The arrays of a file: those of the second optimizer have names of their own. */
static gpur_saved_arrays arrays_of(const gpur_actor_critic *learner)
{
    const gpur_optimizer *const first = &learner->optimizers[0], *const second = &learner->optimizers[1];
    gpur_saved_arrays arrays = {.count = 0};
    gpur_saved_arrays_add(&arrays, "online", first->weights);
    gpur_saved_arrays_add(&arrays, "optimizer.square", first->square);
    gpur_saved_arrays_add(&arrays, "optimizer.mean", first->mean);
    gpur_saved_arrays_add(&arrays, "optimizer.velocity", first->velocity);
    gpur_saved_arrays_add(&arrays, "optimizer.value.square", second->square);
    gpur_saved_arrays_add(&arrays, "optimizer.value.mean", second->mean);
    gpur_saved_arrays_add(&arrays, "optimizer.value.velocity", second->velocity);
    return arrays;
}

/* What changes from step to step besides the arrays. */
typedef struct saved_state {
    int64_t steps_enqueued;
    double beta1_power, beta2_power;
    float next_learning_rate;
} saved_state;

#define STATE_SCALARS(s)                                                                                               \
    {                                                                                                                  \
        {"steps_enqueued", GPUR_SCALAR_I64, &(s)->steps_enqueued},                                                     \
            {"beta1_power", GPUR_SCALAR_F64, &(s)->beta1_power}, {"beta2_power", GPUR_SCALAR_F64, &(s)->beta2_power},  \
        {                                                                                                              \
            "next_learning_rate", GPUR_SCALAR_F32, &(s)->next_learning_rate                                            \
        }                                                                                                              \
    }
enum { STATE_SCALARS_COUNT = 4 };

static gpur_status add_settings(const gpur_actor_critic *learner, gpur_tensors *settings)
{
    const gpur_actor_critic_config *const config = &learner->config;
    GPUR_TRY(gpur_learn_file_add_settings(&config->network, &learner->network.params, "", config->optimizer.kind,
                                          settings, 1));
    return gpur_tensors_add_metadata(settings, "dual_optimizer", "%" PRId32, config->dual_optimizer);
}

/* Requires the lock. */
static gpur_status save(gpur_actor_critic *learner, gpur_tensors *tensors, gpur_sections *sections, const char *path,
                        const gpur_checkpoint_options *options)
{
    const gpur_saved_arrays arrays = arrays_of(learner);
    gpur_stream *const stream = learner->gradient.stream;
    gpur_train_state train;
    GPUR_TRY(gpur_copy(stream, &train, learner->optimizers[0].state, sizeof train));
    GPUR_TRY(gpur_stream_sync(stream));
    saved_state state = {(int64_t)train.step, train.beta1_power, train.beta2_power, train.next_learning_rate};
    const gpur_scalar scalars[] = STATE_SCALARS(&state);
    GPUR_TRY(gpur_saved_arrays_add_sections(&arrays, &learner->network.params, NULL, sections));
    GPUR_TRY(gpur_checkpoint_add_kind(tensors, "actor-critic"));
    GPUR_TRY(add_settings(learner, tensors));
    GPUR_TRY(gpur_scalars_write(tensors, scalars, STATE_SCALARS_COUNT));
    return gpur_checkpoint_write(learner->device, stream, sections, tensors, path, options);
}

gpur_status gpur_actor_critic_save(gpur_actor_critic *learner, const char *path, const gpur_checkpoint_options *given)
{
    gpur_checkpoint_options options;
    gpur_tensors tensors = {0};
    gpur_sections sections = {0};
    GPUR_TRY(gpur_checkpoint_check_call(learner, "learner", path, given, &options));
    gpur_ticket_lock_lock(&learner->lock);
    const gpur_status status = save(learner, &tensors, &sections, path, &options);
    gpur_ticket_lock_unlock(&learner->lock);
    gpur_sections_free(&sections);
    gpur_tensors_free(&tensors);
    return status;
}

typedef struct loading {
    gpur_checkpoint file;
    gpur_tensors settings;
    gpur_sections sections;
    saved_state state;
    float *host; /* (arrays, P) */
    size_t bytes;
} loading;

/* Reads the whole file into host memory and checks it, before the learner is changed. */
static gpur_status read_file(loading *load, gpur_actor_critic *learner, const gpur_checkpoint_options *options)
{
    const gpur_saved_arrays arrays = arrays_of(learner);
    const gpur_params *const params = &learner->network.params;
    const gpur_scalar scalars[] = STATE_SCALARS(&load->state);
    int touched = 0;
    GPUR_TRY(add_settings(learner, &load->settings));
    GPUR_TRY(gpur_checkpoint_compare(&load->file, "actor-critic", "this learner", &load->settings, scalars,
                                     STATE_SCALARS_COUNT));
    load->bytes = (size_t)(arrays.count * params->count) * sizeof(float);
    load->host = gpur_host_alloc(learner->device, load->bytes);
    if (!load->host)
        return gpur_fail(GPUR_OUT_OF_MEMORY, "no host memory for %zu bytes of a learner's file", load->bytes);
    GPUR_TRY(gpur_saved_arrays_add_sections(&arrays, params, load->host, &load->sections));
    GPUR_TRY(gpur_checkpoint_match(&load->file, &load->sections, "this learner", 1));
    GPUR_TRY(gpur_checkpoint_fill(&load->file, learner->device, learner->gradient.stream, &load->sections, options,
                                  &touched));
    return gpur_saved_arrays_check(&arrays, params, load->host, &load->file);
}

/* Both optimizers have taken the same steps. */
static gpur_status enqueue_upload(const loading *load, gpur_actor_critic *learner, const gpur_train_state *train)
{
    const gpur_saved_arrays arrays = arrays_of(learner);
    const int64_t count = learner->network.params.count;
    gpur_stream *const stream = learner->gradient.stream;
    for (int32_t i = 0; i < arrays.count; i++)
        GPUR_TRY(gpur_copy(stream, arrays.list[i].memory, load->host + i * count, count * (int64_t)sizeof(float)));
    for (int i = 0; i < gpur_actor_critic_optimizers(learner); i++)
        GPUR_TRY(gpur_copy(stream, learner->optimizers[i].state, train, sizeof *train));
    return gpur_optimizer_round(&learner->optimizers[0], stream);
}

/* Requires the lock. Waits even after a failure, because enqueued copies read host memory. */
static gpur_status upload(const loading *load, gpur_actor_critic *learner)
{
    const saved_state *const s = &load->state;
    gpur_train_state train;
    memset(&train, 0, sizeof train);
    train.step = (uint64_t)s->steps_enqueued;
    train.beta1_power = s->beta1_power, train.beta2_power = s->beta2_power;
    train.next_learning_rate = s->next_learning_rate;
    const gpur_status status = enqueue_upload(load, learner, &train);
    const gpur_status done = gpur_stream_sync(learner->gradient.stream);
    GPUR_TRY(status);
    GPUR_TRY(done);
    atomic_store(&learner->steps, s->steps_enqueued);
    return GPUR_OK;
}

gpur_status gpur_actor_critic_load(gpur_actor_critic *learner, const char *path, const gpur_checkpoint_options *given)
{
    gpur_checkpoint_options options;
    loading load = {.bytes = 0};
    GPUR_TRY(gpur_checkpoint_check_call(learner, "learner", path, given, &options));
    GPUR_TRY(gpur_checkpoint_open(&load.file, path));
    gpur_ticket_lock_lock(&learner->lock);
    gpur_status status = read_file(&load, learner, &options);
    if (status == GPUR_OK)
        status = upload(&load, learner);
    gpur_ticket_lock_unlock(&learner->lock);
    gpur_host_free(learner->device, load.host, load.bytes);
    gpur_sections_free(&load.sections);
    gpur_tensors_free(&load.settings);
    gpur_checkpoint_close(&load.file);
    return status;
}
