/* SPDX-License-Identifier: MIT */
/*
 * A network as data: which layer reads which columns of which sheet of activations, and where its weights lie. What
 * walks the table (pass.h, conv_pass.h) knows no architecture.
 *
 *   sheet 0   the observations          (rows, features), images as (rows, H, W, C)
 *   sheet i   after trunk layer i       (rows, units), or (rows, H', W', filters)
 *   hidden    all streams side by side, (rows, streams * hidden): one product, e.g. 128 -> [value 512 | advantage 512]
 *   last      what the head reads       (rows, outputs [+ 1]): one product a stream, on its columns
 */
#ifndef GPUR_LEARN_NETWORK_NETWORK_H
#define GPUR_LEARN_NETWORK_NETWORK_H

#include "gpureplay/learner.h"
#include "learn/network/params.h"
#include "base/status.h"

enum { GPUR_MAX_DENSE = GPUR_MAX_LAYERS + 3, GPUR_MAX_SHEETS = GPUR_MAX_LAYERS + 3 };

/* y = activation(x W^T + b), x and y column ranges of two sheets. */
typedef struct gpur_dense {
    int32_t from, to;               /* sheets */
    int32_t from_column, to_column; /* first columns */
    int32_t inputs, units;
    int32_t activation;
    int64_t weight; /* offset of W (units, inputs) in the parameters */
    int64_t bias;   /* offset of b (units); -1: the head adds it */
} gpur_dense;

/* y = activation(x * W + b), from one whole sheet to the next. */
typedef struct gpur_convolution {
    int32_t height, width, channels; /* of what it reads */
    int32_t out_height, out_width, filters;
    int32_t kernel, stride, padding;
    int32_t activation;
    int64_t weight; /* offset of W (filters, kernel, kernel, channels) in the parameters */
    int64_t bias;   /* offset of b (filters) */
} gpur_convolution;

/* What a network looks at: so many numbers, and as an image where it is one (height 0: it is none). */
typedef struct gpur_scene {
    int64_t features;
    int32_t height, width, channels;
} gpur_scene;

typedef struct gpur_network {
    gpur_scene scene;
    gpur_convolution conv[GPUR_MAX_LAYERS]; /* (conv_count) layer i reads sheet i and makes sheet i + 1 */
    int32_t conv_count;
    int32_t block; /* side of the blocks of pixels that the first convolution reads as one pixel; 1: it does not */
    gpur_dense dense[GPUR_MAX_DENSE];
    int32_t dense_count;
    int32_t width[GPUR_MAX_SHEETS]; /* columns of each sheet */
    int32_t sheet_count;
    int32_t head, outputs;
    int64_t head_bias; /* offset of the last layers' biases (width of the last sheet) */
    gpur_params params;
} gpur_network;

/* Refuses a config out of range, or that does not fit the scene. */
gpur_status gpur_network_build(gpur_network *network, const gpur_network_config *config, const gpur_scene *scene);

/* A scene of numbers that are no image. */
static inline gpur_scene gpur_scene_of(int64_t features)
{
    const gpur_scene scene = {features, 0, 0, 0};
    return scene;
}

/* All that can be told without the sizes that come in and out of each layer. */
gpur_status gpur_network_check(const gpur_network_config *config, const gpur_scene *scene);

/* That convolution i fits the image it sees. */
gpur_status gpur_network_check_conv(const gpur_network_config *config, int32_t i, const gpur_scene *seen);

#endif
