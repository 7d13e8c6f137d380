/* SPDX-License-Identifier: MIT */
/* The description of a network: layers, head and initial weights. Learners (learner.h) and policies (policy.h) create
 * the network. */
#ifndef GPUREPLAY_NETWORK_H
#define GPUREPLAY_NETWORK_H

#include "gpureplay/status.h"

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Activation functions. GPUR_LINEAR is the identity. */
enum { GPUR_LINEAR = 0, GPUR_RELU = 1, GPUR_TANH = 2 };

/*
 * Kinds of layers. All convolutions of a network come before its dense layers.
 *
 *   GPUR_DENSE  y = activation(x W^T + b) with W (units, inputs) and b (units). After a convolution, x is its output
 *               flattened in the order height, width, channels. With GPUR_LAYER_NORM y = activation(gain * n + offset)
 *               with z = x W^T + b and, over its units, n = (z - mean) / sqrt(variance + 1e-5), as PyTorch computes it
 *               [Ba, Kiros & Hinton 2016, eq. 4]. gain (units) begins at 1, and offset (units) at 0; they are the
 *               tensors "trunk.0.norm.weight" and "trunk.0.norm.bias"
 *   GPUR_CONV   y = activation(x * W + b) with x (height, width, channels), W (filters, kernel, kernel, channels) and b
 *               (filters), where * is the cross-correlation that deep learning libraries call convolution. The output
 *               has height (height + 2 padding - kernel) / stride + 1, rounded down; its width is computed likewise
 */
enum { GPUR_DENSE = 0, GPUR_CONV = 1 };

/* Kinds of normalization of a layer; 0: none. */
enum { GPUR_LAYER_NORM = 1 };

/*
 * SAME padding, as TensorFlow computes it. The output has height / stride rows, rounded up, for which
 * max((rows - 1) * stride + kernel - height, 0) rows of zeros are added to the image: half of them, rounded down, above
 * it and the others below. Columns are added likewise to its left and right. 21 x 21 pixels, kernel 4 and stride 2
 * give 11 x 11, with 1 row above and 2 below.
 */
enum { GPUR_SAME = -1 };

/* One layer of the trunk. */
typedef struct gpur_layer {
    int32_t kind;        /* GPUR_DENSE or GPUR_CONV */
    int32_t units;       /* outputs of a dense layer, filters of a convolution; 1 to 65,536 */
    int32_t activation;  /* GPUR_LINEAR, GPUR_RELU or GPUR_TANH */
    int32_t kernel;      /* GPUR_CONV: height and width of the kernel, 1 to 64. GPUR_DENSE: 0 */
    int32_t stride;      /* GPUR_CONV: 1 to 64. GPUR_DENSE: 0 */
    int32_t padding;     /* GPUR_CONV: zeros added on each side, 0 to kernel - 1, or GPUR_SAME. GPUR_DENSE: 0 */
    int64_t reserved[1]; /* 0; see gpur_schedule */
    int32_t norm;        /* GPUR_DENSE: GPUR_LAYER_NORM, or 0: none. GPUR_CONV: 0 */
    int32_t reserved0;   /* 0 */
} gpur_layer;

/* The order of the axes of obs if the network begins with a convolution: (4, 84, 84) or (84, 84, 4), for example. */
enum {
    GPUR_CHW = 0,        /* (channels, height, width) */
    GPUR_HWC = 1,        /* (height, width, channels) */
    GPUR_INPUT_AUTO = 2, /* as the shape of obs tells, by gpur_image_layout. Where it does not, the network is refused,
                            and one of the two must be given */
};

/*
 * The order of the axes that the shape of an image tells: GPUR_CHW or GPUR_HWC; GPUR_INPUT_AUTO: it leaves a doubt. Any
 * thread.
 *
 * Two signs tell which axis counts the channels: it is the first or the last one if that has a length of at most 4 and
 * the other has not; and it is the one beside two axes of equal length, if it has another. They must not contradict
 * each other: (84, 84, 4), (3, 64, 64) and (10, 10, 7) are clear, (10, 10, 10), (4, 9, 3) and (4, 4, 10) are not.
 *
 *     const int32_t layout = gpur_image_layout(84, 84, 4); // GPUR_HWC
 */
GPUR_API int32_t gpur_image_layout(int32_t first, int32_t second, int32_t third);

/*
 * The head: what the network computes from the output of the trunk. It has one branch, or two for GPUR_HEAD_DUELING
 * (value and advantage), GPUR_HEAD_SOFTMAX_VALUE (policy and value) and GPUR_HEAD_SQUASHED_GAUSSIAN (mean and log_std).
 * With `hidden` above 0, each branch begins with a dense layer of `hidden` units. DQN learners accept GPUR_HEAD_Q,
 * GPUR_HEAD_DUELING and the two heads of distributions of returns; policies accept all heads.
 *
 * A head of distributions has N (`atoms`) numbers for each action, and Q(s, a) is the mean of their distribution.
 * Quantile i is that of (i + 1/2) / N; atom i has the value z_i = v_min + i (v_max - v_min) / (N - 1), and the
 * probabilities of an action's atoms are the softmax of its numbers.
 */
enum {
    GPUR_HEAD_Q = 0,                 /* Q(s, a) */
    GPUR_HEAD_DUELING = 1,           /* Q(s, a) = V(s) + A(s, a) - mean over a' of A(s, a') [Wang et al. 2016, eq. 9] */
    GPUR_HEAD_SOFTMAX_VALUE = 2,     /* a policy and a value, for actor-critic learners */
    GPUR_HEAD_TANH_ACTION = 3,       /* an action in (-1, 1), for deterministic policy gradients */
    GPUR_HEAD_SQUASHED_GAUSSIAN = 4, /* a distribution over actions, for SAC: tanh(mean(s) + sigma(s) n) with n of
                                        N(0, 1) in each component [Haarnoja et al. 2018a, appendix C]; log sigma is
                                        clipped to -20 to 2 */
    GPUR_HEAD_QUANTILES = 5,         /* quantiles of the return of each action [Dabney et al. 2018]: QR-DQN */
    GPUR_HEAD_CATEGORICAL = 6,       /* probabilities of N returns, for each action [Bellemare et al. 2017]: C51 */
};

/* The most layers of a trunk. */
enum { GPUR_MAX_LAYERS = 8 };

/* A network: a trunk of layers, then a head. */
typedef struct gpur_network_config {
    gpur_layer trunk[GPUR_MAX_LAYERS]; /* (trunk_count), beginning with the layer that reads the observation */
    int32_t trunk_count;               /* 0 to GPUR_MAX_LAYERS */
    int32_t head;                      /* GPUR_HEAD_* */
    int32_t hidden;                    /* units of each branch's hidden layer, up to 65,536; 0: no hidden layer */
    int32_t hidden_activation;         /* GPUR_LINEAR, GPUR_RELU or GPUR_TANH */
    int32_t num_actions;               /* number of actions, 1 to 65,536 */
    int32_t init;                      /* GPUR_INIT_* */
    float init_scale;                  /* GPUR_INIT_NORMAL: the standard deviation, 0 to 1,000,000 */
    float input_scale;                 /* obs is multiplied by this: 1/255 for frames of bytes; not 0; default 1 */
    int32_t input_layout;              /* GPUR_CHW, GPUR_HWC or GPUR_INPUT_AUTO, the default. Only used if the first
                                          layer is a convolution */
    float input_shift;                 /* added to obs * input_scale: -1 with a scale of 1/128 gives bytes as -1 to 1;
                                          finite; default 0 */
    int32_t atoms;                     /* N of a head of distributions: GPUR_HEAD_QUANTILES 1 or more, CATEGORICAL 2 or
                                          more, at most 65,536; 0: the papers' 200 and 51. Other heads: 0 */
    float v_min, v_max;                /* GPUR_HEAD_CATEGORICAL: the smallest and the largest return that has a
                                          probability, v_min below v_max; both 0: the paper's -10 and 10. Other heads:
                                          0 */
    int32_t reserved_number;           /* 0; see gpur_schedule */
    int64_t reserved[2];               /* likewise */
} gpur_network_config;

/*
 * How weights are initialized. Biases begin at 0, except with GPUR_INIT_FAN_IN. In these formulas `inputs` and
 * `outputs` are the numbers of inputs and units of a dense layer; for a convolution they are kernel x kernel x
 * channels and kernel x kernel x filters.
 */
enum {
    GPUR_INIT_FAN_IN = 0, /* U(-1/sqrt(inputs), 1/sqrt(inputs)) for weights and biases: PyTorch's Linear and Conv2d */
    GPUR_INIT_GLOROT = 1, /* U(-l, l), l = sqrt(6 / (inputs + outputs)) [Glorot & Bengio 2010, eq. 16] */
    GPUR_INIT_NORMAL = 2, /* N(0, init_scale^2) */
};

#ifdef __cplusplus
}
#endif
#endif
