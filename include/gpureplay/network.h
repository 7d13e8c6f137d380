/* SPDX-License-Identifier: MIT */
/* A network as data: layers, heads, initial weights. */
#ifndef GPUREPLAY_NETWORK_H
#define GPUREPLAY_NETWORK_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Activations, by name. */
enum { GPUR_LINEAR = 0, GPUR_RELU = 1, GPUR_TANH = 2 };

/* Kinds of layers. Convolutions come before dense layers. */
enum {
    GPUR_DENSE = 0, /* y = activation(x W^T + b), W (units, inputs), b (units); an image is read as H, W, C flattened */
    GPUR_CONV = 1,  /* y = activation(x * W + b), x (H, W, C), W (filters, kernel, kernel, C), b (filters): a
                       cross-correlation, as in every deep learning library; y (H', W', filters) with
                       H' = (H + 2 padding - kernel) / stride + 1, rounded down, and W' likewise */
};

/* A layer of a trunk. */
typedef struct gpur_layer {
    int32_t kind;       /* GPUR_DENSE, GPUR_CONV */
    int32_t units;      /* 1 or more; of a convolution: its filters */
    int32_t activation; /* GPUR_LINEAR, GPUR_RELU, GPUR_TANH */
    int32_t kernel;     /* GPUR_CONV: side of the square kernel, 1 or more; else 0 */
    int32_t stride;     /* GPUR_CONV: 1 or more; else 0 */
    int32_t padding;    /* GPUR_CONV: zeros on each side, 0 to kernel - 1; else 0 */
    int64_t reserved[2]; /* 0 */
} gpur_layer;

/* How an image lies in the replay's three-axis obs: planes, as frames stacked (4, 84, 84), or pixels, as (84, 84, 4).
 */
enum {
    GPUR_CHW = 0, /* (channels, height, width) */
    GPUR_HWC = 1, /* (height, width, channels) */
};

/* What stands on the trunk. Each output stream has `hidden` units of its own first, or none with 0. */
enum {
    GPUR_HEAD_Q = 0,             /* Q(s, a) */
    GPUR_HEAD_DUELING = 1,       /* Q(s, a) = V(s) + A(s, a) - mean_a A(s, a) [Wang et al. 2016, eq. 9], mean by row */
    GPUR_HEAD_SOFTMAX_VALUE = 2, /* policy and value; for actor-critic learners */
    GPUR_HEAD_TANH_ACTION = 3,   /* action in (-1, 1); for deterministic policy gradients */
};

/* Most layers in a trunk. */
enum { GPUR_MAX_LAYERS = 8 };

/* A network as data: a trunk of layers, and a head on it. */
typedef struct gpur_network_config {
    gpur_layer trunk[GPUR_MAX_LAYERS]; /* (trunk_count) from the observation on */
    int32_t trunk_count;       /* 0 to GPUR_MAX_LAYERS */
    int32_t head;              /* GPUR_HEAD_* */
    int32_t hidden;            /* units of each stream's own hidden layer; 0: none */
    int32_t hidden_activation; /* GPUR_LINEAR, GPUR_RELU, GPUR_TANH */
    int32_t outputs;           /* actions */
    int32_t init;              /* GPUR_INIT_* */
    float init_scale;          /* GPUR_INIT_NORMAL: its standard deviation; 0 to 1e6 */
    float input_scale;         /* the first layer reads obs x this: 1/255 for frames; default 1 */
    int32_t input_layout;      /* GPUR_CHW, GPUR_HWC: of obs, where the first layer is a convolution */
    int64_t reserved[4];       /* 0 */
} gpur_network_config;

/* Initial weights. Biases are 0, except under FAN_IN. A dense layer's `inputs` are its inputs, and `outputs` its units;
 * a convolution's are kernel x kernel x channels, and kernel x kernel x filters. */
enum {
    GPUR_INIT_FAN_IN = 0, /* U(-1/sqrt(inputs), 1/sqrt(inputs)) for weights and biases: PyTorch's Linear and Conv2d */
    GPUR_INIT_GLOROT = 1, /* U(-l, l), l = sqrt(6 / (inputs + outputs)) [Glorot & Bengio 2010, eq. 16] */
    GPUR_INIT_NORMAL = 2, /* N(0, init_scale^2) */
};

#ifdef __cplusplus
}
#endif
#endif
