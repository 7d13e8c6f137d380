/* SPDX-License-Identifier: MIT */
/* Files of learners: the arrays of their optimizers, tensor by tensor, settings that must match, and counters. */
#pragma once

#include "file/checkpoint_file.h"
#include "learn/network/params.h"
#include "learn/network_text.h"

enum { GPUR_MAX_FILE_NETWORKS = 2, GPUR_MAX_SAVED_ARRAYS = 6 };

/* An array of all parameters, padding included. */
typedef struct gpur_saved_array {
    char name[32]; /* before the tensors' names: "online", "critic.optimizer.mean" */
    float *memory; /* (P) device */
} gpur_saved_array;

typedef struct gpur_saved_arrays {
    gpur_saved_array list[GPUR_MAX_SAVED_ARRAYS];
    int32_t count;
} gpur_saved_arrays;

/* Describes a learner's file. */
typedef struct gpur_learner_file {
    gpur_device *device;
    const char *kind;           /* "learner", "actor-critic", "dpg" */
    const gpur_scalar *scalars; /* (scalar_count) what changes from step to step besides the arrays */
    int32_t scalar_count, network_count;
    struct {
        gpur_saved_arrays arrays;
        const gpur_params *params;
    } networks[GPUR_MAX_FILE_NETWORKS];

    /* Adds what must be equal in the file and in the learner that loads it. */
    gpur_status (*add_settings)(const void *learner, gpur_tensors *settings);
    const void *learner;
    gpur_network_text text; /* of the network that a policy made from the file has */
} gpur_learner_file;

/* For add_settings: adds those of a network. `owner` comes before the names, "" if there is one network. `optimizer`:
 * its kind. */
gpur_status gpur_learner_file_add_network(const gpur_network_config *network, const gpur_params *params,
                                          const char *owner, int32_t optimizer, gpur_tensors *settings);

/* Writes a file, after the work that is enqueued on the stream. The scalars have their values. The padding of arrays is
 * always zero and not in the file. */
gpur_status gpur_learner_file_write(const gpur_learner_file *file, gpur_stream *stream, const char *path,
                                    const gpur_checkpoint_options *options);

/* A file that is being loaded: opened by the caller, and otherwise zeroed. Close it whatever is returned. */
typedef struct gpur_learner_loading {
    gpur_checkpoint file;
    gpur_tensors settings;
    gpur_sections sections;
    float *host; /* all arrays of the first network, then those of the second */
    size_t bytes;
} gpur_learner_loading;
void gpur_learner_loading_close(gpur_learner_loading *load, gpur_device *device);

/* Reads the whole file into host memory and checks it, so that a refusal leaves the learner unchanged, and sets the
 * scalars. Refuses weights that are not finite, and moments of an optimizer that are NaN. Waits for the stream. */
gpur_status gpur_learner_file_read(const gpur_learner_file *file, gpur_learner_loading *load, gpur_stream *stream,
                                   const gpur_checkpoint_options *options);

/* Enqueues the copies of all arrays from host memory, which must stay until they are done. */
gpur_status gpur_learner_file_enqueue_upload(const gpur_learner_file *file, const gpur_learner_loading *load,
                                             gpur_stream *stream);

/* Reads the online weights from an opened file of a learner of this kind with the same network into `weights`, the
 * array of all parameters in host memory, all zero, and the number of train steps enqueued. `config` and `params` are
 * those of the network. A refusal may leave part of the weights set. */
gpur_status gpur_learner_file_load_weights(gpur_checkpoint *file, const char *kind, gpur_device *device,
                                           gpur_stream *stream, const gpur_network_config *config,
                                           const gpur_params *params, const gpur_checkpoint_options *options,
                                           float *weights, int64_t *steps);
