/* SPDX-License-Identifier: MIT */
/*
 * Weights files: the tensors of a network as a plain safetensors file, which is small enough to be built in memory. Its
 * checksum, 16 hexadecimal digits in the metadata, is that of the file with 16 zeros in their place.
 */
#pragma once

#include "file/checkpoint_file.h"
#include "gpureplay/learner.h"
#include "learn/network/params.h"
#include "learn/network_text.h"

/* What a weights file has beside the weights. */
typedef struct gpur_weights_about {
    gpur_network_text text;
    int64_t version;          /* the number that goes with the weights */
    const gpur_tensors *more; /* whose metadata entries the file has, too; NULL: none */
} gpur_weights_about;

/* Writes `weights`, the array of all parameters in host memory. Refuses weights that are not finite, so that they do
 * not take a good file's place. */
gpur_status gpur_weights_file_save(gpur_device *device, const gpur_params *params, const gpur_weights_about *about,
                                   const float *weights, const char *path, const gpur_checkpoint_options *options);

/* Reads an opened file, also of another program, into `weights`, which must be all zero, because the padding is not
 * written. `version` gets the number that the file has, 0 if it has none. A refusal leaves part of the weights set. */
gpur_status gpur_weights_file_load(gpur_device *device, const gpur_params *params, const gpur_checkpoint *file,
                                   const gpur_checkpoint_options *options, float *weights, int64_t *version);

/* Host memory for all parameters, zeroed; gpur_weights_free accepts NULL. */
gpur_status gpur_weights_alloc(gpur_device *device, const gpur_params *params, float **weights);
void gpur_weights_free(gpur_device *device, const gpur_params *params, float *weights);
