/* SPDX-License-Identifier: MIT */
/* The weights of an actor-critic by name, and its files. */
#include "learn/actor_critic/actor_critic.h"
#include "learn/learner_file.h"
#include "learn/weights_file.h"

#include <inttypes.h>
#include <math.h>
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

static gpur_status add_settings(const void *given, gpur_tensors *settings)
{
    const gpur_actor_critic *const learner = given;
    const gpur_actor_critic_config *const config = &learner->config;
    GPUR_TRY(gpur_learner_file_add_network(&config->network, &learner->network.params, "", config->optimizer.kind,
                                           settings));
    return gpur_tensors_add_metadata(settings, "dual_optimizer", "%" PRId32, config->dual_optimizer);
}

/* `scalars` are those of a state. */
static gpur_learner_file file_of(const gpur_actor_critic *learner, const gpur_scalar *scalars)
{
    return (gpur_learner_file){.device = learner->device,
                               .kind = "actor-critic",
                               .scalars = scalars,
                               .scalar_count = STATE_SCALARS_COUNT,
                               .network_count = 1,
                               .networks = {{arrays_of(learner), &learner->network.params}},
                               .add_settings = add_settings,
                               .learner = learner,
                               .text = {&learner->config.network, learner->config.obs, learner->config.policy_floor}};
}

/* Requires the lock. */
static gpur_status save(gpur_actor_critic *learner, const char *path, const gpur_checkpoint_options *options)
{
    gpur_stream *const stream = learner->gradient.stream;
    gpur_train_state train;
    GPUR_TRY(gpur_prefix_error(gpur_actor_critic_check_finite(learner), "%s is not written", path));
    GPUR_TRY(gpur_copy(stream, &train, learner->optimizers[0].state, sizeof train));
    GPUR_TRY(gpur_stream_sync(stream));
    saved_state state = {(int64_t)train.step, train.beta1_power, train.beta2_power, train.next_learning_rate};
    const gpur_scalar scalars[] = STATE_SCALARS(&state);
    const gpur_learner_file file = file_of(learner, scalars);
    return gpur_learner_file_write(&file, stream, path, options);
}

gpur_status gpur_actor_critic_save(gpur_actor_critic *learner, const char *path, const gpur_checkpoint_options *given)
{
    gpur_checkpoint_options options;
    GPUR_TRY(gpur_checkpoint_check_call(learner, "learner", path, given, &options));
    gpur_ticket_lock_lock(&learner->lock);
    const gpur_status status = save(learner, path, &options);
    gpur_ticket_lock_unlock(&learner->lock);
    return status;
}

/* Both optimizers have taken the same steps. */
static gpur_status enqueue_upload(const gpur_learner_file *file, const gpur_learner_loading *load,
                                  gpur_actor_critic *learner, const gpur_train_state *train)
{
    gpur_stream *const stream = learner->gradient.stream;
    GPUR_TRY(gpur_learner_file_enqueue_upload(file, load, stream));
    for (int i = 0; i < gpur_actor_critic_optimizers(learner); i++)
        GPUR_TRY(gpur_copy(stream, learner->optimizers[i].state, train, sizeof *train));
    return gpur_optimizer_round(&learner->optimizers[0], stream);
}

/* Requires the lock. Waits even after a failure, because enqueued copies read host memory. */
static gpur_status load_opened(gpur_learner_loading *load, gpur_actor_critic *learner,
                               const gpur_checkpoint_options *options)
{
    saved_state s;
    const gpur_scalar scalars[] = STATE_SCALARS(&s);
    const gpur_learner_file file = file_of(learner, scalars);
    gpur_train_state train;
    GPUR_TRY(gpur_learner_file_read(&file, load, learner->gradient.stream, options));
    memset(&train, 0, sizeof train);
    train.step = (uint64_t)s.steps_enqueued;
    train.beta1_power = s.beta1_power, train.beta2_power = s.beta2_power;
    train.next_learning_rate = s.next_learning_rate;
    train.finite_loss = NAN;
    const gpur_status status = enqueue_upload(&file, load, learner, &train);
    const gpur_status done = gpur_stream_sync(learner->gradient.stream);
    GPUR_TRY(status);
    GPUR_TRY(done);
    atomic_store(&learner->steps, s.steps_enqueued);
    atomic_store(&learner->finite_loss, NAN);
    learner->divergence.step = 0;
    return GPUR_OK;
}

gpur_status gpur_actor_critic_load(gpur_actor_critic *learner, const char *path, const gpur_checkpoint_options *given)
{
    gpur_checkpoint_options options;
    gpur_learner_loading load = {.bytes = 0};
    GPUR_TRY(gpur_checkpoint_check_call(learner, "learner", path, given, &options));
    GPUR_TRY(gpur_checkpoint_open(&load.file, path));
    gpur_ticket_lock_lock(&learner->lock);
    const gpur_status status = load_opened(&load, learner, &options);
    gpur_ticket_lock_unlock(&learner->lock);
    gpur_learner_loading_close(&load, learner->device);
    return status;
}
