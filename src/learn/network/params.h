/* SPDX-License-Identifier: MIT */
/*
 * All weights of a network in one array of float32. A block is what one matrix product reads; it starts on 256 bytes,
 * and the padding between blocks stays zero, so the optimiser may run over the whole array. A tensor is what has a
 * name: contiguous, and sometimes a range of rows of a block (both streams of a dueling network are one product).
 */
#ifndef GPUR_LEARN_NETWORK_PARAMS_H
#define GPUR_LEARN_NETWORK_PARAMS_H

#include "base/status.h"

enum { GPUR_MAX_TENSORS = 32 };

typedef struct gpur_tensor {
    char name[64];
    int64_t offset;  /* floats from the start of the array */
    int32_t units;   /* rows of a weight, length of a bias; filters of a convolution */
    int32_t inputs;  /* of its layer: columns of a weight; kernel x kernel x channels of a convolution */
    int32_t outputs; /* of that layer: units; kernel x kernel x filters of a convolution */
    int32_t is_bias;
    int32_t kernel, channels; /* of a convolution's weight; else 0 */
    int32_t block;            /* of a convolution's weight: see gpur_tensor_place */
} gpur_tensor;

typedef struct gpur_params {
    gpur_tensor tensor[GPUR_MAX_TENSORS];
    int32_t tensor_count;
    int64_t count; /* floats in all, padding included */
} gpur_params;

/* Makes room for a block; gives its offset in floats. */
int64_t gpur_params_block(gpur_params *params, int64_t count);

/* What a convolution's weight is, for gpur_params_name_conv: `kernel` and `channels` as its config says, and the side
 * of the blocks of pixels that are one pixel to it (1: none). */
typedef struct gpur_conv_weight {
    int32_t filters, kernel, channels, block;
} gpur_conv_weight;
void gpur_params_name_conv(gpur_params *params, const char *name, int64_t weight, int64_t bias,
                           const gpur_conv_weight *shape);

/* Names `units` rows of a weight block from row `first` on, and the same elements of its bias: "NAME.weight",
 * "NAME.bias". */
void gpur_params_name(gpur_params *params, const char *name, int64_t weight, int64_t bias, int32_t first, int32_t units,
                      int32_t inputs);

int64_t gpur_tensor_count(const gpur_tensor *tensor);

/* Where number `i` of a tensor, in the order of its shape, lies behind its offset. `i` itself, but for a convolution
 * that reads blocks of pixels (kernels/conv/preprocess.h): (F, K, K, C) is kept as (F, K / b, K / b, b, b, C). */
int64_t gpur_tensor_place(const gpur_tensor *tensor, int64_t i);

/* Refuses, with `refusal`, numbers of a tensor that are NaN, or infinite unless `takes_infinite`. They may be in any
 * order. `array` says which array of all parameters it is, "target."; "" where that goes without saying. */
gpur_status gpur_tensor_check_numbers(const gpur_tensor *tensor, const char *array, const float *values,
                                      int takes_infinite, gpur_status refusal);

/* The number of weights, without padding. */
int64_t gpur_params_weights(const gpur_params *params);

/* Refuses an unknown name with the names that exist. */
gpur_status gpur_params_find(const gpur_params *params, const char *name, const gpur_tensor **tensor);

#endif
