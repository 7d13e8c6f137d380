/* SPDX-License-Identifier: MIT */
/* Writes and reads the files of learners. */
#include "learn/learner_file.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Arrays. */

/* Adds a section for each tensor of an array. `memory`, (P) in host memory, replaces the array's own; NULL: the
 * array's. */
static gpur_status add_array(const gpur_params *params, const gpur_saved_array *a, float *memory,
                             gpur_sections *sections)
{
    char name[GPUR_TENSOR_NAME];
    for (int32_t i = 0; i < params->tensor_count; i++) {
        const gpur_tensor *const tensor = &params->tensor[i];
        float *const at = (memory ? memory : a->memory) + tensor->offset;
        const gpur_piece piece = {at, gpur_tensor_count(tensor) * (int64_t)sizeof(float), !memory};
        snprintf(name, sizeof name, "%s.%s", a->name, tensor->name);
        GPUR_TRY(
            gpur_sections_add(sections, name, GPUR_F32, tensor->units, tensor->is_bias ? 0 : tensor->inputs, piece));
    }
    return GPUR_OK;
}

/* Adds the sections of all arrays. `host`: see gpur_learner_loading; NULL: their own memory, on the device. */
static gpur_status add_sections(const gpur_learner_file *f, float *host, gpur_sections *sections)
{
    for (int32_t n = 0; n < f->network_count; n++)
        for (int32_t i = 0; i < f->networks[n].arrays.count; i++) {
            const gpur_params *const params = f->networks[n].params;
            GPUR_TRY(add_array(params, &f->networks[n].arrays.list[i], host, sections));
            host = host ? host + params->count : NULL;
        }
    return GPUR_OK;
}

/* Weights, those for acting included, must be finite. The optimizer's moments may be infinite after an overflow, but
 * not NaN, which would spoil the weights at the next step. */
static gpur_status check_array(const gpur_params *params, const gpur_saved_array *a, const float *values)
{
    char before[sizeof a->name + 1];
    snprintf(before, sizeof before, "%s.", a->name);
    const int is_optimizers = strstr(a->name, "optimizer.") != NULL;
    for (int32_t i = 0; i < params->tensor_count; i++)
        GPUR_TRY(gpur_tensor_check_numbers(&params->tensor[i], before, values + params->tensor[i].offset, is_optimizers,
                                           GPUR_FILE_ERROR));
    return GPUR_OK;
}

static gpur_status check_arrays(const gpur_learner_file *f, const gpur_learner_loading *load)
{
    const float *host = load->host;
    for (int32_t n = 0; n < f->network_count; n++)
        for (int32_t i = 0; i < f->networks[n].arrays.count; i++, host += f->networks[n].params->count)
            GPUR_TRY(check_array(f->networks[n].params, &f->networks[n].arrays.list[i], host));
    return GPUR_OK;
}

/* Settings. */

gpur_status gpur_learner_file_add_network(const gpur_network_config *network, const gpur_params *params,
                                          const char *owner, int32_t optimizer, gpur_tensors *settings)
{
    static const char *const kinds[] = {"adam",          "rmsprop-tf",       "rmsprop-keras2",
                                        "rmsprop-torch", "rmsprop-deepmind", "adam-tf"};
    char key[48];
    snprintf(key, sizeof key, "%soptimizer", owner);
    GPUR_TRY(gpur_tensors_add_metadata(settings, key, "%s", kinds[optimizer]));
    GPUR_TRY(gpur_network_text_add_settings(network, owner, settings));
    snprintf(key, sizeof key, "%sweights", owner);
    return gpur_tensors_add_metadata(settings, key, "%" PRId64, gpur_params_weights(params));
}

/* Saving. */

/* A file that no learner loads must not take the place of one that does. */
static gpur_status check_device_arrays(const gpur_learner_file *f, gpur_stream *stream)
{
    gpur_status status = GPUR_OK;
    for (int32_t n = 0; n < f->network_count && status == GPUR_OK; n++) {
        const gpur_params *const params = f->networks[n].params;
        const size_t bytes = (size_t)params->count * sizeof(float);
        float *const host = gpur_host_alloc(f->device, bytes);
        if (!host)
            return gpur_fail(GPUR_OUT_OF_MEMORY, "no host memory for %zu bytes of a learner's file", bytes);
        for (int32_t i = 0; i < f->networks[n].arrays.count && status == GPUR_OK; i++) {
            const gpur_saved_array *const array = &f->networks[n].arrays.list[i];
            status = gpur_copy(stream, host, array->memory, (int64_t)bytes);
            const gpur_status done = gpur_stream_sync(stream);
            status = status == GPUR_OK ? done : status;
            if (status == GPUR_OK)
                status = check_array(params, array, host);
        }
        gpur_host_free(f->device, host, bytes);
    }
    return status;
}

static gpur_status write(const gpur_learner_file *f, gpur_stream *stream, gpur_tensors *tensors,
                         gpur_sections *sections, const char *path, const gpur_checkpoint_options *options)
{
    GPUR_TRY(gpur_prefix_error(check_device_arrays(f, stream), "%s is not written", path));
    GPUR_TRY(add_sections(f, NULL, sections));
    GPUR_TRY(gpur_checkpoint_add_kind(tensors, f->kind));
    GPUR_TRY(f->add_settings(f->learner, tensors));
    GPUR_TRY(gpur_network_text_add_rest(&f->text, tensors));
    GPUR_TRY(gpur_scalars_write(tensors, f->scalars, f->scalar_count));
    return gpur_checkpoint_write(f->device, stream, sections, tensors, path, options);
}

gpur_status gpur_learner_file_write(const gpur_learner_file *f, gpur_stream *stream, const char *path,
                                    const gpur_checkpoint_options *options)
{
    gpur_tensors tensors = {0};
    gpur_sections sections = {0};
    const gpur_status status = write(f, stream, &tensors, &sections, path, options);
    gpur_sections_free(&sections);
    gpur_tensors_free(&tensors);
    return status;
}

/* Loading. */

static gpur_status compare(const gpur_learner_file *f, gpur_learner_loading *load)
{
    GPUR_TRY(f->add_settings(f->learner, &load->settings));
    gpur_network_text_renew(&load->file.tensors);
    return gpur_checkpoint_compare(&load->file, f->kind, "this learner", &load->settings, f->scalars, f->scalar_count);
}

gpur_status gpur_learner_file_read(const gpur_learner_file *f, gpur_learner_loading *load, gpur_stream *stream,
                                   const gpur_checkpoint_options *options)
{
    int touched = 0;
    GPUR_TRY(compare(f, load));
    for (int32_t n = 0; n < f->network_count; n++)
        load->bytes += (size_t)(f->networks[n].arrays.count * f->networks[n].params->count) * sizeof(float);
    load->host = gpur_host_alloc(f->device, load->bytes);
    if (!load->host)
        return gpur_fail(GPUR_OUT_OF_MEMORY, "no host memory for %zu bytes of a learner's file", load->bytes);
    GPUR_TRY(add_sections(f, load->host, &load->sections));
    GPUR_TRY(gpur_checkpoint_match(&load->file, &load->sections, "this learner", 1));
    GPUR_TRY(gpur_stream_sync(stream));
    GPUR_TRY(gpur_checkpoint_fill(&load->file, f->device, stream, &load->sections, options, &touched));
    return gpur_checkpoint_add_path_to_error(&load->file, check_arrays(f, load));
}

gpur_status gpur_learner_file_enqueue_upload(const gpur_learner_file *f, const gpur_learner_loading *load,
                                             gpur_stream *stream)
{
    const float *host = load->host;
    for (int32_t n = 0; n < f->network_count; n++) {
        const int64_t count = f->networks[n].params->count;
        for (int32_t i = 0; i < f->networks[n].arrays.count; i++, host += count)
            GPUR_TRY(gpur_copy(stream, f->networks[n].arrays.list[i].memory, host, count * (int64_t)sizeof *host));
    }
    return GPUR_OK;
}

void gpur_learner_loading_close(gpur_learner_loading *load, gpur_device *device)
{
    gpur_host_free(device, load->host, load->bytes);
    gpur_sections_free(&load->sections);
    gpur_tensors_free(&load->settings);
    gpur_checkpoint_close(&load->file);
}

/* For policies. */

/* Reads the online weights alone. The other arrays of the file are as many as the learner's optimizer needed. */
static gpur_status read_online(gpur_checkpoint *file, gpur_device *device, gpur_stream *stream,
                               const gpur_params *params, const gpur_checkpoint_options *options, float *weights)
{
    const gpur_saved_array online = {"online", NULL};
    gpur_sections sections = {0};
    int touched = 0;
    gpur_status status = add_array(params, &online, weights, &sections);
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
