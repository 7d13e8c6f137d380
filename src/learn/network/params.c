/* SPDX-License-Identifier: MIT */
/* Names, shapes and orders of a network's tensors. */
#include "learn/network/params.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { ALIGNMENT = 256 / sizeof(float) };

int64_t gpur_params_add_group(gpur_params *params, int64_t count)
{
    const int64_t offset = params->count;
    params->count += (count + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    return offset;
}

gpur_status gpur_params_round(const gpur_params *params, gpur_device *device, gpur_stream *stream, float *weights)
{
    uint16_t *const to = gpur_params_bf16(params, weights);
    const gpur_round_bf16_args args = {.from = weights, .to = to, .count = params->count};
    return to ? gpur_launch_round_bf16(stream, gpur_grid_elements(device, args.count), &args) : GPUR_OK;
}

static gpur_tensor *add(gpur_params *params, const char *name, const char *suffix)
{
    assert(params->tensor_count < GPUR_MAX_TENSORS);
    gpur_tensor *const tensor = &params->tensor[params->tensor_count++];
    snprintf(tensor->name, sizeof tensor->name, "%s.%s", name, suffix);
    return tensor;
}

static void name_bias(gpur_params *params, const char *name, int64_t offset, const gpur_tensor *weight)
{
    gpur_tensor *const b = add(params, name, "bias");
    b->offset = offset;
    b->units = weight->units;
    b->inputs = weight->inputs;
    b->outputs = weight->outputs;
    b->is_bias = 1;
}

void gpur_params_name(gpur_params *params, const char *name, int64_t weight, int64_t bias, int32_t first, int32_t units,
                      int32_t inputs)
{
    gpur_tensor *const w = add(params, name, "weight");
    w->offset = weight + (int64_t)first * inputs;
    w->units = units;
    w->inputs = inputs;
    w->outputs = units;
    name_bias(params, name, bias + first, w);
}

void gpur_params_name_norm(gpur_params *params, const char *name, int64_t gain, int64_t offset, int32_t first,
                           int32_t units)
{
    const int64_t offsets[] = {gain, offset};
    for (int i = 0; i < 2; i++) {
        gpur_tensor *const t = add(params, name, i ? "norm.bias" : "norm.weight");
        t->offset = offsets[i] + first;
        t->units = t->inputs = t->outputs = units;
        t->is_bias = t->is_norm = 1;
        t->first_value = i == 0;
    }
}

void gpur_params_name_conv(gpur_params *params, const char *name, int64_t weight, int64_t bias,
                           const gpur_conv_weight *shape)
{
    gpur_tensor *const w = add(params, name, "weight");
    w->offset = weight;
    w->units = shape->filters;
    w->inputs = shape->kernel * shape->kernel * shape->channels;
    w->outputs = shape->kernel * shape->kernel * shape->filters;
    w->kernel = shape->kernel;
    w->channels = shape->channels;
    w->space_to_depth = shape->space_to_depth;
    name_bias(params, name, bias, w);
}

int64_t gpur_tensor_count(const gpur_tensor *tensor)
{
    return (int64_t)tensor->units * (tensor->is_bias ? 1 : tensor->inputs);
}

int64_t gpur_tensor_index(const gpur_tensor *tensor, int64_t i)
{
    const int64_t b = tensor->space_to_depth, k = tensor->kernel, c = tensor->channels;
    if (b <= 1)
        return i;
    const int64_t filter = i / (k * k * c), y = i / (k * c) % k, x = i / c % k;
    const int64_t outside = (filter * (k / b) + y / b) * (k / b) + x / b;
    return ((outside * b + y % b) * b + x % b) * c + i % c;
}

void gpur_tensor_to_shape_order(const gpur_tensor *tensor, const float *device_order, void *in_order)
{
    const int64_t count = gpur_tensor_count(tensor);
    if (tensor->space_to_depth <= 1) {
        memcpy(in_order, device_order, (size_t)count * sizeof *device_order);
        return;
    }
    for (int64_t i = 0; i < count; i++)
        memcpy((char *)in_order + i * (int64_t)sizeof *device_order, &device_order[gpur_tensor_index(tensor, i)],
               sizeof *device_order);
}

void gpur_tensor_to_device_order(const gpur_tensor *tensor, const void *in_order, float *device_order)
{
    const int64_t count = gpur_tensor_count(tensor);
    if (tensor->space_to_depth <= 1) {
        memcpy(device_order, in_order, (size_t)count * sizeof *device_order);
        return;
    }
    for (int64_t i = 0; i < count; i++)
        memcpy(&device_order[gpur_tensor_index(tensor, i)], (const char *)in_order + i * (int64_t)sizeof *device_order,
               sizeof *device_order);
}

gpur_status gpur_tensor_check_numbers(const gpur_tensor *tensor, const char *array, const float *values,
                                      int takes_infinite, gpur_status refusal)
{
    const int64_t count = gpur_tensor_count(tensor);
    int64_t bad = 0;
    for (int64_t i = 0; i < count; i++)
        bad += takes_infinite ? isnan(values[i]) : !isfinite(values[i]);
    if (bad == 0)
        return GPUR_OK;
    return gpur_fail(refusal, "%" PRId64 " of the %" PRId64 " numbers of \"%s%s\" are %s; they must %s", bad, count,
                     array, tensor->name, takes_infinite ? "NaN" : "NaN or infinite",
                     takes_infinite ? "be numbers" : "be finite");
}

int64_t gpur_params_weights(const gpur_params *params)
{
    int64_t sum = 0;
    for (int32_t i = 0; i < params->tensor_count; i++)
        sum += gpur_tensor_count(&params->tensor[i]);
    return sum;
}

void gpur_params_to_shape_order(const gpur_params *params, const float *weights, void *in_order)
{
    char *at = in_order;
    for (int32_t i = 0; i < params->tensor_count; i++) {
        gpur_tensor_to_shape_order(&params->tensor[i], weights + params->tensor[i].offset, at);
        at += gpur_tensor_count(&params->tensor[i]) * (int64_t)sizeof *weights;
    }
}

void gpur_params_to_device_order(const gpur_params *params, const void *in_order, float *weights)
{
    const char *at = in_order;
    for (int32_t i = 0; i < params->tensor_count; i++) {
        gpur_tensor_to_device_order(&params->tensor[i], at, weights + params->tensor[i].offset);
        at += gpur_tensor_count(&params->tensor[i]) * (int64_t)sizeof *weights;
    }
}

gpur_status gpur_params_check_numbers(const gpur_params *params, const char *array, const float *weights,
                                      gpur_status refusal)
{
    for (int32_t i = 0; i < params->tensor_count; i++)
        GPUR_TRY(gpur_tensor_check_numbers(&params->tensor[i], array, weights + params->tensor[i].offset, 0, refusal));
    return GPUR_OK;
}

int32_t gpur_tensor_shape(const gpur_tensor *tensor, int64_t shape[4])
{
    const int is_kernel = tensor->kernel > 0;
    shape[0] = tensor->units;
    shape[1] = tensor->is_bias ? 0 : is_kernel ? tensor->kernel : tensor->inputs;
    shape[2] = is_kernel ? tensor->kernel : 0;
    shape[3] = is_kernel ? tensor->channels : 0;
    return tensor->is_bias ? 1 : is_kernel ? 4 : 2;
}

/* FNV-1a, 64 bits [Fowler, Noll & Vo]: the names with their final 0, and the axes as little-endian 64-bit numbers. */
static uint64_t hash_bytes(uint64_t hash, const void *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++)
        hash = (hash ^ ((const unsigned char *)bytes)[i]) * 0x100000001b3u;
    return hash;
}

uint64_t gpur_params_hash(const gpur_params *params)
{
    uint64_t hash = 0xcbf29ce484222325u;
    for (int32_t i = 0; i < params->tensor_count; i++) {
        int64_t shape[4];
        const int32_t dims = gpur_tensor_shape(&params->tensor[i], shape);
        hash = hash_bytes(hash, params->tensor[i].name, strlen(params->tensor[i].name) + 1);
        hash = hash_bytes(hash, shape, (size_t)dims * sizeof *shape);
    }
    return hash;
}

enum { DESCRIPTION_BYTES = 128 };

/* For a message: "trunk.0.weight" (16, 5). */
static void describe(const gpur_params *params, int32_t index, char text[DESCRIPTION_BYTES])
{
    int64_t shape[4];
    if (index >= params->tensor_count) {
        snprintf(text, DESCRIPTION_BYTES, "none");
        return;
    }
    const int32_t dims = gpur_tensor_shape(&params->tensor[index], shape);
    int used = snprintf(text, DESCRIPTION_BYTES, "\"%s\" (", params->tensor[index].name);
    for (int32_t d = 0; d < dims; d++)
        used += snprintf(text + used, (size_t)(DESCRIPTION_BYTES - used), "%s%" PRId64, d ? ", " : "", shape[d]);
    snprintf(text + used, (size_t)(DESCRIPTION_BYTES - used), ")");
}

gpur_status gpur_params_check_equal(const gpur_params *policy, const gpur_params *learner)
{
    char ours[DESCRIPTION_BYTES], theirs[DESCRIPTION_BYTES];
    for (int32_t i = 0; i < policy->tensor_count || i < learner->tensor_count; i++) {
        describe(policy, i, ours);
        describe(learner, i, theirs);
        GPUR_REQUIRE(strcmp(ours, theirs) == 0,
                     "tensor %" PRId32 " of the learner is %s, of this policy %s; their networks must be equal", i,
                     theirs, ours);
    }
    return GPUR_OK;
}

static void list_names(const gpur_params *params, char *text, size_t bytes)
{
    size_t used = 0;
    for (int32_t i = 0; i < params->tensor_count && used < bytes; i++)
        used += (size_t)snprintf(text + used, bytes - used, "%s%s", i ? ", " : "", params->tensor[i].name);
}

gpur_status gpur_params_find(const gpur_params *params, const char *name, const gpur_tensor **tensor)
{
    char names[512] = "";
    GPUR_REQUIRE(name, "name of the weights is NULL");
    for (int32_t i = 0; i < params->tensor_count; i++)
        if (strcmp(params->tensor[i].name, name) == 0) {
            *tensor = &params->tensor[i];
            return GPUR_OK;
        }
    list_names(params, names, sizeof names);
    return gpur_fail(GPUR_INVALID_ARGUMENT, "no weights are named \"%s\"; there are %s", name, names);
}
