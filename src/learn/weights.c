/* SPDX-License-Identifier: MIT */
/* A learner's weights: single tensors by name, files of them, and copies to policies. Each call comes between two
 * launches (gpur_learner_begin). */
#include "base/sized.h"
#include "learn/learner.h"
#include "learn/weights_file.h"
#include "replay/sampler/consumer.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Names. */

/* The tensors with names of their own. */
static int32_t tensors_of(const gpur_trained *n)
{
    return n->shares_weights ? 0 : n->network->params.tensor_count;
}

int32_t gpur_learner_weight_count(gpur_learner *learner)
{
    int32_t count = 0;
    for (int i = 0; learner && i < learner->network_count; i++)
        count += tensors_of(&learner->networks[i]);
    return count;
}

static void describe(const gpur_trained *n, const gpur_tensor *tensor, gpur_weight_info *info)
{
    int64_t shape[4];
    memset(info, 0, sizeof *info);
    snprintf(info->name, sizeof info->name, "%s%s%.48s", n->name, n->name[0] ? "." : "", tensor->name);
    info->dims = gpur_tensor_shape(tensor, shape);
    for (int32_t i = 0; i < info->dims; i++)
        info->shape[i] = (int32_t)shape[i];
    info->count = gpur_tensor_count(tensor);
}

gpur_status gpur_learner_get_weight_info(gpur_learner *learner, int32_t index, gpur_weight_info *info)
{
    gpur_weight_info known;
    GPUR_REQUIRE(learner && info, "learner and info must not be NULL");
    GPUR_REQUIRE(index >= 0 && index < gpur_learner_weight_count(learner),
                 "index is %" PRId32 "; it must be 0 to %" PRId32, index, gpur_learner_weight_count(learner) - 1);
    const gpur_trained *n = learner->networks;
    for (; index >= tensors_of(n); n++)
        index -= tensors_of(n);
    describe(n, &n->network->params.tensor[index], &known);
    return gpur_sized_write(info, &known, sizeof known, "gpur_weight_info");
}

/* A tensor of a call, and the array in which it is. */
typedef struct found {
    const gpur_trained *network;
    const gpur_tensor *tensor;
    float *array; /* (P) device */
} found;

static gpur_status find_network(gpur_learner *learner, const char *name, const gpur_trained **network,
                                const char **rest)
{
    GPUR_REQUIRE(name, "name of the weights is NULL");
    for (int i = 0; i < learner->network_count; i++) {
        const char *const before = learner->networks[i].name;
        const size_t length = strlen(before);
        *network = &learner->networks[i];
        *rest = length > 0 ? name + length + 1 : name;
        if (length == 0 || (strncmp(name, before, length) == 0 && name[length] == '.'))
            return GPUR_OK;
    }
    return gpur_fail(GPUR_INVALID_ARGUMENT, "no weights are named \"%s\"; their names begin with \"%s.\" or \"%s.\"",
                     name, learner->networks[0].name, learner->networks[1].name);
}

static gpur_status find_array(const gpur_trained *n, int32_t which, float **array)
{
    const gpur_optimizer *const o = n->optimizer;
    float *const arrays[] = {o->weights, o->target, o->gradient};
    GPUR_REQUIRE(which >= GPUR_WEIGHTS_ONLINE && which <= GPUR_WEIGHTS_GRADIENT,
                 "which is %" PRId32 "; it must be GPUR_WEIGHTS_ONLINE, TARGET or GRADIENT (0 to 2)", which);
    GPUR_REQUIRE(arrays[which],
                 "which is GPUR_WEIGHTS_TARGET (1); a learner with a cache of returns, like an actor-critic, has no "
                 "target network, and of soft actor-critic the critics alone have one");
    *array = arrays[which];
    return GPUR_OK;
}

static gpur_status find(gpur_learner *learner, int32_t which, const char *name, const float *values, int64_t count,
                        found *f)
{
    const char *rest = NULL;
    GPUR_REQUIRE(learner && values, "learner and values must not be NULL");
    GPUR_TRY(find_network(learner, name, &f->network, &rest));
    const gpur_status status = gpur_params_find(&f->network->network->params, rest, &f->tensor);
    GPUR_TRY(f->network->name[0] ? gpur_prefix_error(status, "%s", f->network->name) : status);
    GPUR_REQUIRE(count == gpur_tensor_count(f->tensor), "count is %" PRId64 "; \"%s\" has %" PRId64 " numbers", count,
                 name, gpur_tensor_count(f->tensor));
    return find_array(f->network, which, &f->array);
}

/* Single tensors. */

/* Enqueues the copy of a tensor from host memory, also to the acting copies if they are of this array. */
static gpur_status enqueue_write(gpur_learner *learner, const found *f, gpur_stream *stream, const float *values)
{
    const int64_t offset = f->tensor->offset, count = gpur_tensor_count(f->tensor);
    GPUR_TRY(gpur_copy(stream, f->array + offset, values, count * (int64_t)sizeof *values));
    GPUR_TRY(gpur_optimizer_round(f->network->optimizer, stream));
    if (!learner->acting || f->array != gpur_learner_acting_weights(learner))
        return GPUR_OK;
    return gpur_policy_enqueue_patch(learner->acting, stream, f->array, offset, count);
}

/* Copies a tensor after the last launch, between two arrays (count) in host memory and the device, in its order. One of
 * `to` and `from` is NULL. */
static gpur_status copy(gpur_learner *learner, const found *f, float *to, const float *from)
{
    gpur_stream *stream = NULL;
    const int64_t bytes = gpur_tensor_count(f->tensor) * (int64_t)sizeof *to;
    GPUR_TRY(gpur_learner_begin(learner, &stream));
    const gpur_status status =
        from ? enqueue_write(learner, f, stream, from) : gpur_copy(stream, to, f->array + f->tensor->offset, bytes);
    return gpur_learner_end(learner, gpur_stream_finish(stream, status));
}

/* Allocates host memory for a tensor whose order on the device is not that of its shape. Others need none, and get
 * NULL. */
static gpur_status alloc_ordered(gpur_learner *learner, const gpur_tensor *tensor, float **ordered)
{
    const size_t bytes = (size_t)gpur_tensor_count(tensor) * sizeof **ordered;
    *ordered = tensor->space_to_depth > 1 ? gpur_host_alloc(learner->device, bytes) : NULL;
    if (tensor->space_to_depth > 1 && !*ordered)
        return gpur_fail(GPUR_OUT_OF_MEMORY, "no host memory for %zu bytes of \"%s\"", bytes, tensor->name);
    return GPUR_OK;
}

static void free_ordered(gpur_learner *learner, const gpur_tensor *tensor, float *ordered)
{
    gpur_host_free(learner->device, ordered, (size_t)gpur_tensor_count(tensor) * sizeof *ordered);
}

gpur_status gpur_learner_read_weights(gpur_learner *learner, int32_t which, const char *name, float *values,
                                      int64_t count)
{
    found f;
    float *ordered = NULL;
    GPUR_TRY(find(learner, which, name, values, count, &f));
    GPUR_TRY(alloc_ordered(learner, f.tensor, &ordered));
    const gpur_status status = copy(learner, &f, ordered ? ordered : values, NULL);
    if (ordered && status == GPUR_OK)
        gpur_tensor_to_shape_order(f.tensor, ordered, values);
    free_ordered(learner, f.tensor, ordered);
    return status;
}

gpur_status gpur_learner_write_weights(gpur_learner *learner, int32_t which, const char *name, const float *values,
                                       int64_t count)
{
    found f;
    float *ordered = NULL;
    GPUR_REQUIRE(which != GPUR_WEIGHTS_GRADIENT,
                 "which is %" PRId32 "; GPUR_WEIGHTS_ONLINE (0) and TARGET (1) can be written", which);
    GPUR_TRY(find(learner, which, name, values, count, &f));
    GPUR_TRY(gpur_tensor_check_numbers(f.tensor, "", values, 0, GPUR_INVALID_ARGUMENT));
    GPUR_TRY(alloc_ordered(learner, f.tensor, &ordered));
    if (ordered)
        gpur_tensor_to_device_order(f.tensor, values, ordered);
    const gpur_status status = copy(learner, &f, NULL, ordered ? ordered : values);
    free_ordered(learner, f.tensor, ordered);
    return status;
}

/* All weights of the first network. */

gpur_status gpur_learner_save_weights(gpur_learner *learner, const char *path, const gpur_checkpoint_options *given)
{
    gpur_checkpoint_options options;
    float *weights = NULL;
    GPUR_TRY(gpur_checkpoint_check_call(learner, "learner", path, given, &options));
    const gpur_params *const params = &learner->networks[0].network->params;
    gpur_weights_about about = {.text = {learner->networks[0].config, learner->obs, learner->policy_floor}};
    GPUR_TRY(gpur_weights_alloc(learner->device, params, &weights));
    gpur_status status = gpur_learner_download(learner, 0, weights, &about.version);
    if (status == GPUR_OK) /* by all steps enqueued before, which are done */
        status = gpur_prefix_error(gpur_learner_check_finite(learner), "%s is not written", path);
    if (status == GPUR_OK)
        status = gpur_weights_file_save(learner->device, params, &about, weights, path, &options);
    gpur_weights_free(learner->device, params, weights);
    return status;
}

static gpur_status enqueue_upload(gpur_learner *learner, gpur_stream *stream, const float *weights)
{
    const gpur_optimizer *const optimizer = learner->networks[0].optimizer;
    GPUR_TRY(gpur_optimizer_write(optimizer, stream, weights));
    return learner->acting ? gpur_policy_enqueue_patch(learner->acting, stream, weights, 0, optimizer->count) : GPUR_OK;
}

static gpur_status upload(gpur_learner *learner, const float *weights)
{
    gpur_stream *stream = NULL;
    GPUR_TRY(gpur_learner_begin(learner, &stream));
    return gpur_learner_end(learner, gpur_stream_finish(stream, enqueue_upload(learner, stream, weights)));
}

gpur_status gpur_learner_load_weights(gpur_learner *learner, const char *path, const gpur_checkpoint_options *given)
{
    gpur_checkpoint_options options;
    gpur_checkpoint file;
    float *weights = NULL;
    int64_t version = 0;
    GPUR_TRY(gpur_checkpoint_check_call(learner, "learner", path, given, &options));
    GPUR_TRY(gpur_checkpoint_open(&file, path));
    const gpur_params *const params = &learner->networks[0].network->params;
    gpur_status status = gpur_weights_alloc(learner->device, params, &weights);
    if (status == GPUR_OK)
        status = gpur_weights_file_load(learner->device, params, &file, &options, weights, &version);
    if (status == GPUR_OK)
        status = upload(learner, weights);
    gpur_weights_free(learner->device, params, weights);
    gpur_checkpoint_close(&file);
    return status;
}

/* Copies to policies. */

/* The network with the head of the policy's, or the first one. */
static const gpur_trained *network_for(const gpur_learner *learner, const gpur_policy *policy)
{
    for (int i = 0; i < learner->network_count; i++)
        if (learner->networks[i].network->head == policy->network.head)
            return &learner->networks[i];
    return learner->networks;
}

/* The copy is enqueued on the stream of the learner's launches, between two of them. It is no launch itself: unlike
 * those it need not wait until at most one of them is in flight. */
static gpur_status enqueue_pull(gpur_policy *policy, gpur_learner *learner, const float *weights)
{
    if (learner->replay)
        gpur_consumer_lock(learner->replay);
    else
        gpur_ticket_lock_lock(&learner->lock);
    gpur_status status = gpur_learner_check_finite(learner);
    if (status == GPUR_OK)
        status = gpur_policy_enqueue_write(policy, learner->stream, weights, gpur_learner_steps_enqueued(learner));
    if (learner->replay)
        gpur_consumer_unlock(learner->replay);
    else
        gpur_ticket_lock_unlock(&learner->lock);
    return status;
}

gpur_status gpur_policy_pull(gpur_policy *policy, gpur_learner *learner, int32_t which)
{
    float *weights = NULL;
    GPUR_REQUIRE(policy && learner, "policy and learner must not be NULL");
    GPUR_REQUIRE(which == GPUR_WEIGHTS_ONLINE || which == GPUR_WEIGHTS_TARGET,
                 "which is %" PRId32 "; a policy pulls GPUR_WEIGHTS_ONLINE (0) or TARGET (1)", which);
    GPUR_REQUIRE(policy->device == learner->device,
                 "the learner is on %s, opened by another gpur_device_open than this policy's %s; it must be the same",
                 gpur_device_name(learner->device), gpur_device_name(policy->device));
    const gpur_trained *const from = network_for(learner, policy);
    GPUR_TRY(gpur_network_check_equal(&policy->network, from->network));
    GPUR_TRY(find_array(from, which, &weights));
    return enqueue_pull(policy, learner, weights);
}
