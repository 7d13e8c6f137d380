/* SPDX-License-Identifier: MIT */
/* Weights by name, to and from the host, in a turn of their own between two launches. */
#include "base/sized.h"
#include "learn/learner.h"
#include "replay/consumer.h"

#include <inttypes.h>
#include <string.h>

int32_t gpur_learner_weight_count(gpur_learner *learner)
{
    return learner ? learner->network.params.tensor_count : 0;
}

static void describe_shape(const gpur_tensor *tensor, gpur_weight_info *info)
{
    info->dims = tensor->is_bias ? 1 : tensor->kernel ? 4 : 2;
    info->shape[0] = tensor->units;
    if (info->dims == 4) {
        info->shape[1] = info->shape[2] = tensor->kernel;
        info->shape[3] = tensor->channels;
    } else if (info->dims == 2)
        info->shape[1] = tensor->inputs;
}

gpur_status gpur_learner_weight(gpur_learner *learner, int32_t index, gpur_weight_info *info)
{
    gpur_weight_info known;
    GPUR_REQUIRE(learner && info, "learner and info must not be NULL");
    GPUR_REQUIRE(index >= 0 && index < learner->network.params.tensor_count,
                 "index is %" PRId32 "; it must be 0 to %" PRId32, index, learner->network.params.tensor_count - 1);
    const gpur_tensor *const tensor = &learner->network.params.tensor[index];
    memset(&known, 0, sizeof known);
    memcpy(known.name, tensor->name, sizeof known.name);
    describe_shape(tensor, &known);
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

static float *array_of(gpur_learner *learner, int32_t which)
{
    const gpur_optimizer *const optimizer = &learner->step.optimizer;
    if (which == GPUR_WEIGHTS_GRADIENT)
        return optimizer->gradient;
    return which == GPUR_WEIGHTS_TARGET ? optimizer->target : optimizer->weights;
}

/* Both directions: enqueued behind the last launch, and waited for, in one turn of the consumer. */
static gpur_status copy_in_turn(gpur_learner *learner, float *to, const float *from, const gpur_tensor *tensor,
                                const float *patched)
{
    gpur_stream *stream = NULL;
    GPUR_TRY(gpur_consumer_begin(learner->replay, 0, &stream));
    const int64_t count = gpur_tensor_count(tensor);
    gpur_status status = gpur_copy(stream, to, from, count * (int64_t)sizeof(float));
    if (status == GPUR_OK && patched)
        status = gpur_actor_patch(&learner->actor, stream, patched, tensor->offset, count);
    if (status == GPUR_OK)
        status = gpur_stream_sync(stream);
    const gpur_status ended = gpur_consumer_end(learner->replay);
    return status != GPUR_OK ? status : ended;
}

/* Values in the order of the tensor's shape, from or to those in the order of the device. */
static void put_in_order(const gpur_tensor *tensor, float *in_order, const float *kept)
{
    for (int64_t i = 0; i < gpur_tensor_count(tensor); i++)
        in_order[i] = kept[gpur_tensor_place(tensor, i)];
}

static void take_in_order(const gpur_tensor *tensor, const float *in_order, float *kept)
{
    for (int64_t i = 0; i < gpur_tensor_count(tensor); i++)
        kept[gpur_tensor_place(tensor, i)] = in_order[i];
}

/* Host memory for a tensor that the device keeps in another order; NULL with GPUR_OK for the others. */
static gpur_status open_kept(gpur_learner *learner, const gpur_tensor *tensor, float **kept)
{
    const size_t bytes = (size_t)gpur_tensor_count(tensor) * sizeof **kept;
    *kept = tensor->block > 1 ? gpur_host_alloc(learner->device, bytes) : NULL;
    if (tensor->block > 1 && !*kept)
        return gpur_fail(GPUR_OUT_OF_MEMORY, "no host memory for %zu bytes of \"%s\"", bytes, tensor->name);
    return GPUR_OK;
}

static void close_kept(gpur_learner *learner, const gpur_tensor *tensor, float *kept)
{
    if (kept)
        gpur_host_free(learner->device, kept, (size_t)gpur_tensor_count(tensor) * sizeof *kept);
}

gpur_status gpur_learner_read_weights(gpur_learner *learner, int32_t which, const char *name, float *values,
                                      int64_t count)
{
    const gpur_tensor *tensor = NULL;
    GPUR_TRY(find(learner, name, values, count, &tensor));
    GPUR_REQUIRE(which >= GPUR_WEIGHTS_ONLINE && which <= GPUR_WEIGHTS_GRADIENT,
                 "which is %" PRId32 "; it must be GPUR_WEIGHTS_ONLINE, TARGET or GRADIENT (0 to 2)", which);
    float *kept = NULL;
    GPUR_TRY(open_kept(learner, tensor, &kept));
    const gpur_status status =
        copy_in_turn(learner, kept ? kept : values, array_of(learner, which) + tensor->offset, tensor, NULL);
    if (kept && status == GPUR_OK)
        put_in_order(tensor, values, kept);
    close_kept(learner, tensor, kept);
    return status;
}

gpur_status gpur_learner_write_weights(gpur_learner *learner, int32_t which, const char *name, const float *values,
                                       int64_t count)
{
    const gpur_tensor *tensor = NULL;
    GPUR_TRY(find(learner, name, values, count, &tensor));
    GPUR_REQUIRE(which == GPUR_WEIGHTS_ONLINE || which == GPUR_WEIGHTS_TARGET,
                 "which is %" PRId32 "; GPUR_WEIGHTS_ONLINE (0) and TARGET (1) can be written", which);
    GPUR_TRY(gpur_tensor_check_numbers(tensor, "", values, 0, GPUR_INVALID_ARGUMENT));
    float *const array = array_of(learner, which);
    const float *const acting = gpur_learner_acting_weights(learner);
    float *kept = NULL;
    GPUR_TRY(open_kept(learner, tensor, &kept));
    if (kept)
        take_in_order(tensor, values, kept);
    const gpur_status status =
        copy_in_turn(learner, array + tensor->offset, kept ? kept : values, tensor, array == acting ? array : NULL);
    close_kept(learner, tensor, kept);
    return status;
}
