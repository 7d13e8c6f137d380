/* SPDX-License-Identifier: MIT */
/* What learners and policies both do with files of learners, whose arrays lie there tensor by tensor, without their
 * padding. */
#pragma once

#include "file/checkpoint_file.h"
#include "learn/network/params.h"
#include "learn/network_text.h"

/* Adds a section for each tensor of an array of all parameters, (P) in host memory or on the device. `name` stands
 * before the tensors' names. */
gpur_status gpur_learner_file_add_array(const gpur_params *params, const char *name, float *memory, int on_device,
                                        gpur_sections *sections);

/* Reads the online weights from an opened file of a learner of this kind with the same network into `weights`, the
 * array of all parameters in host memory, all zero, and the number of train steps enqueued. `config` and `params` are
 * those of the network. A refusal may leave part of the weights set. */
gpur_status gpur_learner_file_load_weights(gpur_checkpoint *file, const char *kind, gpur_device *device,
                                           gpur_stream *stream, const gpur_network_config *config,
                                           const gpur_params *params, const gpur_checkpoint_options *options,
                                           float *weights, int64_t *steps);
