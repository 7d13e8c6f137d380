/* SPDX-License-Identifier: MIT */
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
