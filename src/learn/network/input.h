/* SPDX-License-Identifier: MIT */
/* Converts observations, as the replay stores them, to a network's input (activations 0). A dense network reads float32
 * observations directly, without conversion, if input_scale is 1. */
#pragma once

#include "learn/config.h"
#include "learn/network/pass.h"

typedef struct gpur_input {
    int32_t direct;            /* 1: observations are the input, unchanged */
    int32_t bf16;              /* 1: the input is bfloat16 */
    int64_t row_bytes;         /* of one observation */
    int64_t raw_pitch;         /* bytes from one raw observation to the next in a train step; 0: direct */
    gpur_preprocess_args args; /* except the addresses, obs_pitch and the count */
} gpur_input;

/* The input shape that obs gives: an image if the first layer is a convolution and obs has three axes. */
gpur_input_shape gpur_input_shape_find(const gpur_learn_fields *fields, const gpur_network_config *config);

gpur_input gpur_input_of(gpur_device *device, const gpur_network *network, const gpur_learn_fields *fields,
                         const gpur_learner_config *config);

/* The options of a learner's passes. */
gpur_pass_options gpur_input_options(const gpur_input *input, const gpur_learner_config *config);

/* The address of row `row` of the input, whose rows are `pitch` numbers apart. */
float *gpur_input_row(const gpur_input *input, float *activations, int64_t row, int64_t pitch);

/* Enqueues the conversion of `rows` observations, `raw_pitch` bytes apart (row_bytes or the input's raw_pitch). Does
 * nothing if the input is direct. */
gpur_status gpur_input_run(const gpur_input *input, gpur_device *device, gpur_stream *stream, int64_t rows,
                           const void *raw, int64_t raw_pitch, float *activations);
