/* SPDX-License-Identifier: MIT */
/*
 * A network as data: which dense layer reads which columns of which sheet of activations, and where its weights lie.
 * What walks the table (pass.h, backward.h) knows no architecture.
 *
 *   sheet 0   the observations          (rows, features)
 *   sheet i   after trunk layer i       (rows, units)
 *   hidden    all streams side by side, (rows, streams * hidden): one product, e.g. 128 -> [value 512 | advantage 512]
 *   last      what the head reads       (rows, outputs [+ 1]): one product a stream, on its columns
 */
#ifndef GPUR_LEARN_NETWORK_H
#define GPUR_LEARN_NETWORK_H

#include "gpureplay/learner.h"
#include "learn/params.h"

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

typedef struct gpur_network {
    gpur_dense dense[GPUR_MAX_DENSE];
    int32_t dense_count;
    int32_t width[GPUR_MAX_SHEETS]; /* columns of each sheet */
    int32_t sheet_count;
    int32_t head, outputs;
    int64_t head_bias; /* offset of the last layers' biases (width of the last sheet) */
    gpur_params params;
} gpur_network;

/* Refuses a config out of range. `features` is the size of an observation. */
gpur_status gpur_network_build(gpur_network *network, const gpur_network_config *config, int64_t features);

#endif
