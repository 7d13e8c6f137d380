/* SPDX-License-Identifier: MIT */
/* From observations as the replay keeps them to sheet 0. Dense networks on float32 read them as they are: nothing is
 * done for those. */
#ifndef GPUR_LEARN_NETWORK_INPUT_H
#define GPUR_LEARN_NETWORK_INPUT_H

#include "learn/config.h"
#include "learn/network/pass.h"

typedef struct gpur_input {
    int32_t direct;         /* 1: observations are rows of sheet 0 */
    int32_t bf16;           /* 1: sheet 0 is bfloat16 */
    int64_t row_bytes;      /* of one observation */
    int64_t raw_pitch;      /* bytes between observations that wait for gpur_input_run; 0: direct */
    gpur_observe_args args; /* but for the addresses and the count */
} gpur_input;

/* What a network sees in obs: an image where it begins with a convolution. */
gpur_scene gpur_input_scene(const gpur_learn_fields *fields, const gpur_network_config *config);

gpur_input gpur_input_of(gpur_device *device, const gpur_network *network, const gpur_learn_fields *fields,
                         const gpur_learner_config *config);

/* How a learner computes its passes. */
gpur_pass_options gpur_input_options(const gpur_input *input, const gpur_learner_config *config);

/* Row `row` of sheet 0, whose rows are `pitch` numbers apart. */
float *gpur_input_row(const gpur_input *input, float *sheet, int64_t row, int64_t pitch);

/* Enqueues it for `rows` observations, `raw_pitch` bytes apart (row_bytes, or the input's), unless it is direct. */
gpur_status gpur_input_run(const gpur_input *input, gpur_device *device, gpur_stream *stream, int64_t rows,
                           const void *raw, int64_t raw_pitch, float *sheet);

#endif
