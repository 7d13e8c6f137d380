/* SPDX-License-Identifier: MIT */
/*
 * A network as a table: which layer reads which columns of which activations, and where its weights are. The code
 * that runs a network (pass.h) reads only this table, and knows no architecture.
 *
 *   activations 0   the input, i.e. the observations: (rows, features), images as (rows, H, W, C)
 *   activations i   of trunk layer i: (rows, units), or (rows, H', W', filters)
 *   hidden          of the hidden layers of all branches, side by side: (rows, branches * hidden). One GEMM, e.g.
 *                   128 -> [value 512 | advantage 512]. Missing if config.hidden is 0
 *   last            of the output layers, read by the head: (rows, outputs [+ 1]). One GEMM per branch, on the branch's
 *                   columns of the hidden activations; without hidden layers one GEMM for all branches
 *
 * A network can have copies of itself, with weights of their own, such as twin critics. They lie side by side in all
 * arrays but the input, which they all read: (rows, copies * units). So the first layer of all is one GEMM, and of the
 * others each copy has its own, on its columns.
 */
#pragma once

#include "gpureplay/learner.h"
#include "learn/network/params.h"
#include "base/status.h"

enum { GPUR_MAX_COPIES = 2, GPUR_MAX_ACTIVATIONS = GPUR_MAX_LAYERS + 3 };
enum { GPUR_MAX_DENSE = GPUR_MAX_COPIES * (GPUR_MAX_LAYERS + 3) };

/* A dense layer: y = activation(x W^T + b). x and y are column ranges of two arrays of activations. */
typedef struct gpur_dense {
    int32_t from, to;               /* indices of the activations of x and y */
    int32_t from_column, to_column; /* the first columns of x and y */
    int32_t inputs, units;
    int32_t activation;
    int64_t weight; /* offset of W (units, inputs) in the parameters */
    int64_t bias;   /* offset of b (units); -1: an output layer, whose bias the head adds */
} gpur_dense;

/* A convolution: y = activation(x * W + b). x and y are two whole arrays of activations. */
typedef struct gpur_convolution {
    int32_t height, width, channels; /* of x */
    int32_t out_height, out_width, filters;
    int32_t kernel, stride;
    int32_t top, left, bottom, right; /* rows or columns of zeros around x */
    int32_t activation;
    int64_t weight; /* offset of W (filters, kernel, kernel, channels) in the parameters */
    int64_t bias;   /* offset of b (filters) */
} gpur_convolution;

/* Layer normalization of activations s, of each copy by itself: the offsets of gain and offset (width[s]). */
typedef struct gpur_norm {
    int64_t gain; /* 0, where a weight is: they are not normalized */
    int64_t offset;
} gpur_norm;

/* Input shape: the number of values, and for images height x width x channels (else height is 0). */
typedef struct gpur_input_shape {
    int64_t features;
    int32_t height, width, channels;
} gpur_input_shape;

typedef struct gpur_network {
    gpur_input_shape input_shape;
    gpur_convolution conv[GPUR_MAX_LAYERS]; /* (conv_count) layer i reads activations i and writes activations i + 1 */
    int32_t conv_count;
    int32_t space_to_depth; /* space-to-depth: the first convolution reads block x block pixels as one pixel; 1: it does
                               not */
    gpur_dense dense[GPUR_MAX_DENSE];
    int32_t dense_count;
    int32_t width[GPUR_MAX_ACTIVATIONS]; /* columns of each array of activations */
    gpur_norm norm[GPUR_MAX_ACTIVATIONS];
    int32_t activation_count;
    int32_t copies;
    int32_t head, num_actions;      /* of each copy */
    gpur_distribution distribution; /* of each action, with a head of distributions */
    int64_t head_bias;              /* offset of the output layers' biases (width of the last activations) */
    gpur_params params;
} gpur_network;

/* Refuses a config that is out of range or does not fit the input shape. */
gpur_status gpur_network_build(gpur_network *network, const gpur_network_config *config,
                               const gpur_input_shape *input_shape);

/* Builds 1 to GPUR_MAX_COPIES copies of the network as one, of which the first has the tensors "1.trunk.0.weight", ...,
 * and the next "2.trunk.0.weight", ...; one copy has the names without a number. Several must have no convolutions. */
gpur_status gpur_network_build_copies(gpur_network *network, const gpur_network_config *config,
                                      const gpur_input_shape *input_shape, int32_t copies);

/* The first of these copies alone, in the parameters of all of them. */
gpur_network gpur_network_first_copy(const gpur_network *copies);

/*
 * Makes the network compute in bfloat16, which sets params.bf16, if `math` is GPUR_MATH_BF16, the device has it, and
 * the network's layers suit: convolutions without tanh, then a dense layer below the last, which is not normalized, all
 * of them with multiples of 8 channels, filters and units. Its convolutions' activations and their gradients are then
 * stored in bfloat16, and the products of the first dense layer read bfloat16, too. To be called before anything else
 * is made of the network.
 */
void gpur_network_choose_bf16(gpur_network *network, gpur_device *device, int32_t math);

/* Fills in `weights` (params.count) with the initial weights, computed on the host, so that every device gets the same
 * bits. It must be all zero, because the padding is not written. */
void gpur_init_weights(const gpur_params *params, const gpur_network_config *config, uint64_t seed, float *weights);

/* Refuses to copy a learner's weights to a policy if the tensors of their networks differ, or the images, strides and
 * paddings of convolutions, or activations. */
gpur_status gpur_network_check_equal(const gpur_network *policy, const gpur_network *learner);

/* The shape of an input that is no image. */
static inline gpur_input_shape gpur_input_shape_of(int64_t features)
{
    const gpur_input_shape input_shape = {features, 0, 0, 0};
    return input_shape;
}
