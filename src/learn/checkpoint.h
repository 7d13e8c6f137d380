/* SPDX-License-Identifier: MIT */
/* A learner's files: the arrays of the optimizer, tensor by tensor, the older acting copy, and the counters. The
 * learner's own functions are gpur_learner_save and gpur_learner_load. */
#pragma once

#include "file/checkpoint_file.h"
#include "learn/network/network.h"

/* Reads the online weights from an opened file of a learner with the same network into `weights`, the array of all
 * parameters in host memory, all zero, and the number of train steps enqueued. `config` and `params` are those of the
 * network. A refusal may leave part of the weights set. */
gpur_status gpur_learner_file_load_weights(gpur_checkpoint *file, gpur_device *device, gpur_stream *stream,
                                           const gpur_network_config *config, const gpur_params *params,
                                           const gpur_checkpoint_options *options, float *weights, int64_t *steps);
