/* SPDX-License-Identifier: MIT */
/* A learner's files: the arrays of the optimizer, tensor by tensor, the older acting copy, and the counters. The
 * learner's own functions are gpur_learner_save and gpur_learner_load. */
#pragma once

#include "file/checkpoint_file.h"
#include "learn/part.h"

/* What files of learners share: those of the actor-critic and of DPG have these, too. */

/* Adds the sections of all arrays, tensor by tensor. The padding is always zero and not in the file. `host`, (arrays,
 * P), replaces their memory; NULL: their own, on the device. */
gpur_status gpur_saved_arrays_add_sections(const gpur_saved_arrays *arrays, const gpur_params *params, float *host,
                                           gpur_sections *sections);

/* Refuses what has been read from a file, (arrays, P), if a weight is not finite or a moment of the optimizer NaN. */
gpur_status gpur_saved_arrays_check(const gpur_saved_arrays *arrays, const gpur_params *params, const float *host,
                                    const gpur_checkpoint *file);

/* Adds what must be equal in the file and in the object that loads it. `owner` comes before the names, "" if there is
 * one network. `optimizer`: its kind. `has_activation`: with that of the head's hidden layers. */
gpur_status gpur_learn_file_add_settings(const gpur_network_config *network, const gpur_params *params,
                                         const char *owner, int32_t optimizer, gpur_tensors *settings,
                                         int has_activation);

/* Reads the online weights from an opened file of a learner of this kind with the same network into `weights`, the
 * array of all parameters in host memory, all zero, and the number of train steps enqueued. `config` and `params` are
 * those of the network. A refusal may leave part of the weights set. */
gpur_status gpur_learner_file_load_weights(gpur_checkpoint *file, const char *kind, gpur_device *device,
                                           gpur_stream *stream, const gpur_network_config *config,
                                           const gpur_params *params, const gpur_checkpoint_options *options,
                                           float *weights, int64_t *steps);
