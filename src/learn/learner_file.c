/* SPDX-License-Identifier: MIT */
/* Describes arrays of a learner's file, and reads its weights for policies. */
#include "learn/learner_file.h"

#include <stdio.h>

gpur_status gpur_learner_file_add_array(const gpur_params *params, const char *name, float *memory, int on_device,
                                        gpur_sections *sections)
{
    char full[GPUR_TENSOR_NAME];
    for (int32_t i = 0; i < params->tensor_count; i++) {
        const gpur_tensor *const tensor = &params->tensor[i];
        const gpur_piece piece = {memory + tensor->offset, gpur_tensor_count(tensor) * (int64_t)sizeof *memory,
                                  on_device};
        snprintf(full, sizeof full, "%s.%s", name, tensor->name);
        GPUR_TRY(
            gpur_sections_add(sections, full, GPUR_F32, tensor->units, tensor->is_bias ? 0 : tensor->inputs, piece));
    }
    return GPUR_OK;
}

/* Reads the online weights alone. The other arrays of the file are as many as the learner's optimizer needed. */
static gpur_status read_online(gpur_checkpoint *file, gpur_device *device, gpur_stream *stream,
                               const gpur_params *params, const gpur_checkpoint_options *options, float *weights)
{
    gpur_sections sections = {0};
    int touched = 0;
    gpur_status status = gpur_learner_file_add_array(params, "online", weights, 0, &sections);
    if (status == GPUR_OK)
        status = gpur_checkpoint_match(file, &sections, "this policy", file->tensors.count - sections.count);
    if (status == GPUR_OK)
        status = gpur_checkpoint_fill(file, device, stream, &sections, options, &touched);
    gpur_sections_free(&sections);
    GPUR_TRY(status);
    return gpur_checkpoint_add_path_to_error(file,
                                             gpur_params_check_numbers(params, "online.", weights, GPUR_FILE_ERROR));
}

gpur_status gpur_learner_file_load_weights(gpur_checkpoint *file, const char *kind, gpur_device *device,
                                           gpur_stream *stream, const gpur_network_config *config,
                                           const gpur_params *params, const gpur_checkpoint_options *options,
                                           float *weights, int64_t *steps)
{
    const gpur_scalar scalar = {GPUR_STEPS_ENQUEUED, GPUR_SCALAR_I64, steps};
    gpur_tensors settings = {0};
    gpur_status status = gpur_network_text_add_settings(config, "", &settings);
    gpur_network_text_renew(&file->tensors);
    if (status == GPUR_OK)
        status = gpur_checkpoint_compare(file, kind, "this policy", &settings, &scalar, 1);
    if (status == GPUR_OK)
        status = read_online(file, device, stream, params, options, weights);
    gpur_tensors_free(&settings);
    return status;
}
