/* SPDX-License-Identifier: MIT */
/*
 * All parameters of a network, in one array of float32. A group is a weight or bias that one GEMM or convolution reads.
 * It starts at a multiple of 256 bytes, and the padding between groups stays zero, so the optimizer can run over the
 * whole array. A tensor is a named, contiguous range of the array: a whole group, or some rows of a group (the hidden
 * layers of both branches of a dueling network are one GEMM).
 */
#pragma once

#include "device/device.h"

enum { GPUR_MAX_TENSORS = 96 };

typedef struct gpur_tensor {
    char name[64];
    int64_t offset;  /* floats from the start of the array */
    int32_t units;   /* rows of a weight, elements of a bias; filters of a convolution */
    int32_t inputs;  /* of its layer: columns of a weight; kernel x kernel x channels of a convolution */
    int32_t outputs; /* of that layer: units; kernel x kernel x filters of a convolution */
    int32_t is_bias;
    int32_t is_norm;          /* 1: gain or offset of a normalization, which has one axis as a bias has */
    int32_t first_value;      /* of a normalization: with which all of it begins */
    int32_t kernel, channels; /* of a convolution's weight; else 0 */
    int32_t space_to_depth;   /* of a convolution's weight: the side b of gpur_tensor_index; else 0 */
} gpur_tensor;

typedef struct gpur_params {
    gpur_tensor tensor[GPUR_MAX_TENSORS];
    int32_t tensor_count;
    int64_t count; /* floats of the array, padding included */
    int32_t bf16;  /* 1: behind an array of weights lies its copy in bfloat16: see gpur_params_bf16 */
} gpur_params;

/* Adds a group of `count` floats, and returns its offset in floats. */
int64_t gpur_params_add_group(gpur_params *params, int64_t count);

/* Bytes of an array of weights, with its copy in bfloat16 if there is one. */
static inline int64_t gpur_params_bytes(const gpur_params *params)
{
    return params->count * (int64_t)(sizeof(float) + (params->bf16 ? sizeof(uint16_t) : 0));
}

/* Returns the copy of `weights` in bfloat16, (count), which the products of a network in bfloat16 read; NULL: there is
 * none. A train step writes both. */
static inline uint16_t *gpur_params_bf16(const gpur_params *params, const float *weights)
{
    return params->bf16 && weights ? (uint16_t *)(uintptr_t)(weights + params->count) : NULL;
}

/* Enqueues the rounding of `weights` to their copy in bfloat16, which must follow any other write of theirs. Does
 * nothing if there is none. */
gpur_status gpur_params_round(const gpur_params *params, gpur_device *device, gpur_stream *stream, float *weights);

/* The shape of a convolution's weight: `kernel` and `channels` as in its config, and `space_to_depth`, the side of the
 * space-to-depth blocks that it reads (1: none). */
typedef struct gpur_conv_weight {
    int32_t filters, kernel, channels, space_to_depth;
} gpur_conv_weight;

/* Names the weight and the bias of a convolution: "NAME.weight", "NAME.bias". */
void gpur_params_name_conv(gpur_params *params, const char *name, int64_t weight, int64_t bias,
                           const gpur_conv_weight *shape);

/* Names `units` rows of a dense layer's weight, from row `first` on, and the same elements of its bias: "NAME.weight",
 * "NAME.bias". `weight` and `bias` are the offsets of the groups. */
void gpur_params_name(gpur_params *params, const char *name, int64_t weight, int64_t bias, int32_t first, int32_t units,
                      int32_t inputs);

/* Names `units` elements of a layer's gain and offset, from element `first` on: "NAME.norm.weight",
 * "NAME.norm.bias". */
void gpur_params_name_norm(gpur_params *params, const char *name, int64_t gain, int64_t offset, int32_t first,
                           int32_t units);

int64_t gpur_tensor_count(const gpur_tensor *tensor);

/* Returns the index, from the tensor's offset on, of element `i` in the order of the tensor's shape. That is `i`,
 * except for a convolution that reads space-to-depth blocks of side b (kernels/conv/preprocess.h): its weight
 * (F, K, K, C) is stored as (F, K / b, K / b, b, b, C). */
int64_t gpur_tensor_index(const gpur_tensor *tensor, int64_t i);

/* Copy a tensor's values between the order of the device and that of its shape. `in_order` may be unaligned. */
void gpur_tensor_to_shape_order(const gpur_tensor *tensor, const float *device_order, void *in_order);
void gpur_tensor_to_device_order(const gpur_tensor *tensor, const void *in_order, float *device_order);

/* Refuses, with status `refusal`, values of a tensor that are NaN, or infinite unless `takes_infinite`. They may be in
 * any order. `array` precedes the tensor's name in the message, such as "target."; "" for the online weights. */
gpur_status gpur_tensor_check_numbers(const gpur_tensor *tensor, const char *array, const float *values,
                                      int takes_infinite, gpur_status refusal);

/* The number of weights, without padding. */
int64_t gpur_params_weights(const gpur_params *params);

/* Copy and check all tensors, as the functions above do with one: `weights` is the array of all parameters (count), and
 * `in_order` has the tensors without padding (gpur_params_weights), one after the other. */
void gpur_params_to_shape_order(const gpur_params *params, const float *weights, void *in_order);
void gpur_params_to_device_order(const gpur_params *params, const void *in_order, float *weights);
gpur_status gpur_params_check_numbers(const gpur_params *params, const char *array, const float *weights,
                                      gpur_status refusal);

/* The axes of a tensor's shape, 1, 2 or 4 of them. Returns their number. */
int32_t gpur_tensor_shape(const gpur_tensor *tensor, int64_t shape[4]);

/* A hash of the names and shapes of all tensors, the same on all machines. */
uint64_t gpur_params_hash(const gpur_params *params);

/* Refuses if the tensors of a policy differ from those of a learner. The message has the first that does, with both
 * shapes. */
gpur_status gpur_params_check_equal(const gpur_params *policy, const gpur_params *learner);

/* Refuses an unknown name with the names that exist. */
gpur_status gpur_params_find(const gpur_params *params, const char *name, const gpur_tensor **tensor);
