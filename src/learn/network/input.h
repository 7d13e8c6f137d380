/* SPDX-License-Identifier: MIT */
/* Converts observations, as the replay stores them, to a network's input (activations 0). A dense network reads float32
 * observations directly, without conversion, if input_scale is 1 and input_shift 0. */
#pragma once

#include "gpureplay/replay.h"
#include "learn/network/pass.h"

/* The type and axes of observations. */
typedef struct gpur_obs_format {
    int64_t features;                   /* numbers in one observation */
    int64_t bytes;                      /* of one observation */
    int32_t is_float;                   /* 1: float32, 0: uint8 */
    int32_t dims, shape[GPUR_MAX_DIMS]; /* axes and their lengths */
} gpur_obs_format;

/* Refuses a field of a type that networks do not read. */
gpur_status gpur_obs_format_of(const gpur_field_info *field, gpur_obs_format *format);

/* Reads the format of a field that belongs to no schema, whose name is not read, and checks it as a replay checks its
 * fields. */
gpur_status gpur_obs_format_read(const gpur_field *given, gpur_obs_format *format);

/* Builds `copies` of a network that read these observations, as one, and chooses its arithmetic. Replaces
 * GPUR_INPUT_AUTO in `config` by the order of axes that the shape of obs tells, and refuses a shape that tells none to
 * a convolution. */
gpur_status gpur_network_open(gpur_network *network, gpur_network_config *config, const gpur_obs_format *obs,
                              int32_t copies, gpur_device *device, int32_t math);

typedef struct gpur_input {
    int32_t direct;            /* 1: observations are the input, unchanged */
    int32_t bf16;              /* 1: the input is bfloat16: params.bf16 of the network */
    int64_t row_bytes;         /* of one observation */
    int64_t raw_pitch;         /* bytes from one raw observation to the next in a train step; 0: direct */
    gpur_preprocess_args args; /* except the addresses, obs_pitch and the count */
} gpur_input;

gpur_input gpur_input_of(const gpur_network *network, const gpur_obs_format *obs, const gpur_network_config *config);

/* The address of row `row` of the input, whose rows are `pitch` numbers apart. */
float *gpur_input_row(const gpur_input *input, float *activations, int64_t row, int64_t pitch);

/* Enqueues the conversion of `rows` observations, `raw_pitch` bytes apart (row_bytes or the input's raw_pitch). Does
 * nothing if the input is direct. */
gpur_status gpur_input_run(const gpur_input *input, gpur_device *device, gpur_stream *stream, int64_t rows,
                           const void *raw, int64_t raw_pitch, float *activations);
