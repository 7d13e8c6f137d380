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

/* A dense layer: y = activation(x W^T + b), W (units, inputs), b (units). */
typedef struct gpur_layer {
    int32_t units;      /* 1 or more */
    int32_t activation; /* GPUR_LINEAR, GPUR_RELU, GPUR_TANH */
} gpur_layer;

/* What stands on the trunk. Each output stream has `hidden` units of its own first, or none with 0. */
enum {
    GPUR_HEAD_Q = 0,             /* Q(s, a) */
    GPUR_HEAD_DUELING = 1,       /* Q(s, a) = V(s) + A(s, a) - mean_a A(s, a) [Wang et al. 2016, eq. 9], mean by row */
    GPUR_HEAD_SOFTMAX_VALUE = 2, /* policy and value; for actor-critic learners */
    GPUR_HEAD_TANH_ACTION = 3,   /* action in (-1, 1); for deterministic policy gradients */
};

/* Most dense layers in a trunk. */
enum { GPUR_MAX_LAYERS = 8 };

/* A network as data: a trunk of dense layers, and a head on it. */
typedef struct gpur_network_config {
    gpur_layer trunk[GPUR_MAX_LAYERS]; /* (trunk_count) from the observation on */
    int32_t trunk_count;       /* 0 to GPUR_MAX_LAYERS */
    int32_t head;              /* GPUR_HEAD_* */
    int32_t hidden;            /* units of each stream's own hidden layer; 0: none */
    int32_t hidden_activation; /* GPUR_LINEAR, GPUR_RELU, GPUR_TANH */
    int32_t outputs;           /* actions */
    int32_t init;              /* GPUR_INIT_* */
    float init_scale;          /* GPUR_INIT_NORMAL: its standard deviation */
} gpur_network_config;

/* Initial weights. Biases are 0, except under FAN_IN. */
enum {
    GPUR_INIT_FAN_IN = 0, /* U(-1/sqrt(inputs), 1/sqrt(inputs)) for weights and biases: PyTorch's Linear */
    GPUR_INIT_GLOROT = 1, /* U(-l, l), l = sqrt(6 / (inputs + units)) [Glorot & Bengio 2010, eq. 16] */
    GPUR_INIT_NORMAL = 2, /* N(0, init_scale^2) */
};

#ifdef __cplusplus
}
#endif
#endif
