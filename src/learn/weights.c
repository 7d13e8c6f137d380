/* SPDX-License-Identifier: MIT */
/* A learner's weights: reads and writes single tensors by name, and saves and loads the online network as a file. Each
 * call holds the consumer lock, so it comes between two launches. */
#include "base/sized.h"
#include "learn/diverged.h"
#include "learn/learner.h"
#include "learn/weights_file.h"
#include "replay/sampler/consumer.h"
#include "replay/view.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

int32_t gpur_learner_weight_count(gpur_learner *learner)
{
    return learner ? learner->network.params.tensor_count : 0;
}

gpur_status gpur_learner_get_weight_info(gpur_learner *learner, int32_t index, gpur_weight_info *info)
{
    GPUR_REQUIRE(learner && info, "learner and info must not be NULL");
    return gpur_weight_info_write(&learner->network.params, index, info);
}

gpur_status gpur_weight_info_write(const gpur_params *params, int32_t index, gpur_weight_info *info)
{
    gpur_weight_info known;
    int64_t shape[4];
    GPUR_REQUIRE(index >= 0 && index < params->tensor_count, "index is %" PRId32 "; it must be 0 to %" PRId32, index,
                 params->tensor_count - 1);
    const gpur_tensor *const tensor = &params->tensor[index];
    memset(&known, 0, sizeof known);
    memcpy(known.name, tensor->name, sizeof known.name);
    known.dims = gpur_tensor_shape(tensor, shape);
    for (int32_t i = 0; i < known.dims; i++)
        known.shape[i] = (int32_t)shape[i];
    known.count = gpur_tensor_count(tensor);
    return gpur_sized_write(info, &known, sizeof known, "gpur_weight_info");
}

static gpur_status find(gpur_learner *learner, const char *name, const float *values, int64_t count,
                        const gpur_tensor **tensor)
{
    GPUR_REQUIRE(learner && values, "learner and values must not be NULL");
    GPUR_TRY(gpur_params_find(&learner->network.params, name, tensor));
    GPUR_REQUIRE(count == gpur_tensor_count(*tensor), "count is %" PRId64 "; \"%s\" has %" PRId64 " numbers", count,
                 name, gpur_tensor_count(*tensor));
    return GPUR_OK;
}

/* Refuses the target network of a learner that has none. */
static gpur_status check_target(const gpur_learner *learner, int32_t which)
{
    GPUR_REQUIRE(which != GPUR_WEIGHTS_TARGET || learner->step.optimizer.target,
                 "which is GPUR_WEIGHTS_TARGET (1); a learner with a cache of returns has no target network");
    return GPUR_OK;
}

static float *array_of(gpur_learner *learner, int32_t which)
{
    const gpur_optimizer *const optimizer = &learner->step.optimizer;
    if (which == GPUR_WEIGHTS_GRADIENT)
        return optimizer->gradient;
    return which == GPUR_WEIGHTS_TARGET ? optimizer->target : optimizer->weights;
}

/* Copies a tensor in either direction, holding the consumer lock: enqueues the copy after the last launch and waits for
 * it, even after a failure, because an enqueued copy uses the caller's memory. `is_write` 1: to the device. `patched`:
 * (P) array from which the acting copies get the same tensor; NULL: they are left alone. */
static gpur_status copy_locked(gpur_learner *learner, float *to, const float *from, const gpur_tensor *tensor,
                               int is_write, const float *patched)
{
    gpur_stream *stream = NULL;
    GPUR_TRY(gpur_consumer_begin(learner->replay, gpur_consumer_without_publishing, &stream));
    const int64_t count = gpur_tensor_count(tensor);
    gpur_status status = gpur_copy(stream, to, from, count * (int64_t)sizeof(float));
    if (status == GPUR_OK && is_write)
        status = gpur_optimizer_round(&learner->step.optimizer, stream);
    if (status == GPUR_OK && patched)
        status = gpur_actor_patch(&learner->actor, stream, patched, tensor->offset, count);
    const gpur_status done = gpur_stream_sync(stream);
    return gpur_consumer_end(learner->replay, status == GPUR_OK ? done : status);
}

/* Allocates host memory for a tensor whose order on the device is not that of its shape. Other tensors need none, and
 * *device_order is NULL. */
static gpur_status alloc_device_order(gpur_learner *learner, const gpur_tensor *tensor, float **device_order)
{
    const size_t bytes = (size_t)gpur_tensor_count(tensor) * sizeof **device_order;
    *device_order = tensor->space_to_depth > 1 ? gpur_host_alloc(learner->device, bytes) : NULL;
    if (tensor->space_to_depth > 1 && !*device_order)
        return gpur_fail(GPUR_OUT_OF_MEMORY, "no host memory for %zu bytes of \"%s\"", bytes, tensor->name);
    return GPUR_OK;
}

static void free_device_order(gpur_learner *learner, const gpur_tensor *tensor, float *device_order)
{
    if (device_order)
        gpur_host_free(learner->device, device_order, (size_t)gpur_tensor_count(tensor) * sizeof *device_order);
}

gpur_status gpur_learner_read_weights(gpur_learner *learner, int32_t which, const char *name, float *values,
                                      int64_t count)
{
    const gpur_tensor *tensor = NULL;
    GPUR_TRY(find(learner, name, values, count, &tensor));
    GPUR_REQUIRE(which >= GPUR_WEIGHTS_ONLINE && which <= GPUR_WEIGHTS_GRADIENT,
                 "which is %" PRId32 "; it must be GPUR_WEIGHTS_ONLINE, TARGET or GRADIENT (0 to 2)", which);
    GPUR_TRY(check_target(learner, which));
    float *device_order = NULL;
    GPUR_TRY(alloc_device_order(learner, tensor, &device_order));
    const gpur_status status = copy_locked(learner, device_order ? device_order : values,
                                           array_of(learner, which) + tensor->offset, tensor, 0, NULL);
    if (device_order && status == GPUR_OK)
        gpur_tensor_to_shape_order(tensor, device_order, values);
    free_device_order(learner, tensor, device_order);
    return status;
}

gpur_status gpur_learner_write_weights(gpur_learner *learner, int32_t which, const char *name, const float *values,
                                       int64_t count)
{
    const gpur_tensor *tensor = NULL;
    GPUR_TRY(find(learner, name, values, count, &tensor));
    GPUR_REQUIRE(which == GPUR_WEIGHTS_ONLINE || which == GPUR_WEIGHTS_TARGET,
                 "which is %" PRId32 "; GPUR_WEIGHTS_ONLINE (0) and TARGET (1) can be written", which);
    GPUR_TRY(check_target(learner, which));
    GPUR_TRY(gpur_tensor_check_numbers(tensor, "", values, 0, GPUR_INVALID_ARGUMENT));
    float *const array = array_of(learner, which);
    const float *const acting = gpur_learner_acting_weights(learner);
    float *device_order = NULL;
    GPUR_TRY(alloc_device_order(learner, tensor, &device_order));
    if (device_order)
        gpur_tensor_to_device_order(tensor, values, device_order);
    const gpur_status status = copy_locked(learner, array + tensor->offset, device_order ? device_order : values,
                                           tensor, 1, array == acting ? array : NULL);
    free_device_order(learner, tensor, device_order);
    return status;
}

static gpur_status download(gpur_learner *learner, float *weights, int64_t *steps)
{
    gpur_stream *stream = NULL;
    GPUR_TRY(gpur_consumer_begin(learner->replay, gpur_consumer_without_publishing, &stream));
    const int64_t bytes = learner->network.params.count * (int64_t)sizeof *weights;
    const gpur_status status = gpur_copy(stream, weights, learner->step.optimizer.weights, bytes);
    *steps = gpur_train_stats_steps_enqueued(&learner->train_stats);
    const gpur_status done = gpur_stream_sync(stream);
    return gpur_consumer_end(learner->replay, status == GPUR_OK ? done : status);
}

gpur_status gpur_weights_check_finite(gpur_replay *replay, const gpur_params *params, const float *weights,
                                      gpur_divergence *divergence, gpur_train_stats *stats)
{
    gpur_device *const device = gpur_replay_device(replay);
    gpur_stream *stream = NULL;
    float *host = NULL;
    GPUR_TRY(gpur_weights_alloc(device, params, &host));
    gpur_status status = gpur_consumer_begin(replay, gpur_consumer_without_publishing, &stream);
    if (status == GPUR_OK) {
        status = gpur_copy(stream, host, weights, params->count * (int64_t)sizeof *host);
        const gpur_status done = gpur_stream_sync(stream);
        status = gpur_consumer_end(replay, status == GPUR_OK ? done : status);
    }
    const int are_finite =
        status != GPUR_OK || gpur_params_check_numbers(params, "", host, GPUR_INVALID_ARGUMENT) == GPUR_OK;
    gpur_weights_free(device, params, host);
    GPUR_TRY(status);
    const gpur_train_state state = gpur_train_stats_newest(stats);
    divergence->step = (int64_t)state.step; /* the last one: an earlier one would have spoiled a loss */
    divergence->loss_before = (double)state.finite_loss;
    divergence->learning_rate = (double)state.learning_rate;
    return are_finite ? GPUR_OK : gpur_diverged(divergence);
}

gpur_status gpur_learner_check_weights(gpur_learner *learner)
{
    gpur_divergence divergence = {.optimizer = &learner->config.optimizer,
                                  .reward_clip = &gpur_replay_settings(learner->replay)->reward_clip,
                                  .network = ""};
    GPUR_TRY(gpur_learner_sync(learner));
    return gpur_weights_check_finite(learner->replay, &learner->network.params, learner->step.optimizer.weights,
                                     &divergence, &learner->train_stats);
}

gpur_status gpur_learner_save_weights(gpur_learner *learner, const char *path, const gpur_checkpoint_options *given)
{
    gpur_checkpoint_options options;
    float *weights = NULL;
    int64_t steps = 0;
    GPUR_TRY(gpur_checkpoint_check_call(learner, "learner", path, given, &options));
    const gpur_params *const params = &learner->network.params;
    const gpur_network_text text = {&learner->config.network, gpur_network_text_obs(learner->replay), 0.0f};
    GPUR_TRY(gpur_weights_alloc(learner->device, params, &weights));
    gpur_status status = download(learner, weights, &steps);
    if (status == GPUR_OK) /* by all steps enqueued before, which are done */
        status = gpur_prefix_error(gpur_learner_check_finite(learner), "%s is not written", path);
    if (status == GPUR_OK)
        status = gpur_weights_file_save(learner->device, params, &text, weights, steps, path, &options);
    gpur_weights_free(learner->device, params, weights);
    return status;
}

static gpur_status upload(gpur_learner *learner, const float *weights)
{
    const gpur_optimizer *const optimizer = &learner->step.optimizer;
    const int64_t bytes = optimizer->count * (int64_t)sizeof(float);
    gpur_stream *stream = NULL;
    gpur_status status = gpur_consumer_begin(learner->replay, gpur_consumer_without_publishing, &stream);
    GPUR_TRY(status);
    status = gpur_copy(stream, optimizer->weights, weights, bytes);
    if (status == GPUR_OK && optimizer->target)
        status = gpur_copy(stream, optimizer->target, weights, bytes);
    if (status == GPUR_OK)
        status = gpur_optimizer_round(optimizer, stream);
    if (status == GPUR_OK)
        status = gpur_actor_patch(&learner->actor, stream, weights, 0, optimizer->count);
    const gpur_status done = gpur_stream_sync(stream);
    return gpur_consumer_end(learner->replay, status == GPUR_OK ? done : status);
}

gpur_status gpur_learner_load_weights(gpur_learner *learner, const char *path, const gpur_checkpoint_options *given)
{
    gpur_checkpoint_options options;
    gpur_checkpoint file;
    float *weights = NULL;
    int64_t version = 0;
    GPUR_TRY(gpur_checkpoint_check_call(learner, "learner", path, given, &options));
    GPUR_TRY(gpur_checkpoint_open(&file, path));
    const gpur_params *const params = &learner->network.params;
    gpur_status status = gpur_weights_alloc(learner->device, params, &weights);
    if (status == GPUR_OK)
        status = gpur_weights_file_load(learner->device, params, &file, &options, weights, &version);
    if (status == GPUR_OK)
        status = upload(learner, weights);
    gpur_weights_free(learner->device, params, weights);
    gpur_checkpoint_close(&file);
    return status;
}
