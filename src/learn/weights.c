/* SPDX-License-Identifier: MIT */
/* Weights by name: reads and writes single tensors, and saves and loads the online network as a file. Each call holds
 * the consumer lock, so it comes between two launches. */
#include "base/sized.h"
#include "learn/learner.h"
#include "replay/sampler/consumer.h"
#include "file/checkpoint_file.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int32_t gpur_learner_weight_count(gpur_learner *learner)
{
    return learner ? learner->network.params.tensor_count : 0;
}

static gpur_tensor_entry entry_of(const gpur_tensor *tensor)
{
    gpur_tensor_entry entry = {.type = GPUR_F32, .dims = tensor->is_bias ? 1 : tensor->kernel ? 4 : 2};
    entry.shape[0] = tensor->units;
    entry.shape[1] = tensor->is_bias ? 0 : tensor->kernel ? tensor->kernel : tensor->inputs;
    entry.shape[2] = entry.dims == 4 ? tensor->kernel : 0;
    entry.shape[3] = entry.dims == 4 ? tensor->channels : 0;
    snprintf(entry.name, sizeof entry.name, "%s", tensor->name);
    return entry;
}

gpur_status gpur_learner_get_weight_info(gpur_learner *learner, int32_t index, gpur_weight_info *info)
{
    gpur_weight_info known;
    GPUR_REQUIRE(learner && info, "learner and info must not be NULL");
    GPUR_REQUIRE(index >= 0 && index < learner->network.params.tensor_count,
                 "index is %" PRId32 "; it must be 0 to %" PRId32, index, learner->network.params.tensor_count - 1);
    const gpur_tensor *const tensor = &learner->network.params.tensor[index];
    const gpur_tensor_entry entry = entry_of(tensor);
    memset(&known, 0, sizeof known);
    memcpy(known.name, tensor->name, sizeof known.name);
    known.dims = entry.dims;
    for (int32_t i = 0; i < known.dims; i++)
        known.shape[i] = (int32_t)entry.shape[i];
    known.count = gpur_tensor_count(tensor);
    return gpur_sized_write(info, &known, sizeof known, "gpur_weight_info");
}

static gpur_status find(gpur_learner *learner, const char *name, const float *values, int64_t count,
                        const gpur_tensor **tensor)
{
    GPUR_REQUIRE(learner && values, "learner and values must not be NULL");
    GPUR_TRY(gpur_params_find(&learner->network.params, name, tensor));
    GPUR_REQUIRE(count == gpur_tensor_count(*tensor), "count is %" PRId64 "; \"%s\" has %" PRId64 " numbers", count,
                 name, gpur_tensor_count(*tensor));
    return GPUR_OK;
}

static float *array_of(gpur_learner *learner, int32_t which)
{
    const gpur_optimizer *const optimizer = &learner->step.optimizer;
    if (which == GPUR_WEIGHTS_GRADIENT)
        return optimizer->gradient;
    return which == GPUR_WEIGHTS_TARGET ? optimizer->target : optimizer->weights;
}

/* Copies a tensor in either direction, holding the consumer lock: enqueues the copy after the last launch and waits for
 * it, even after a failure, because an enqueued copy uses the caller's memory. `patched`: (P) array from which the
 * acting copies get the same tensor; NULL: they are left alone. */
static gpur_status copy_locked(gpur_learner *learner, float *to, const float *from, const gpur_tensor *tensor,
                               const float *patched)
{
    gpur_stream *stream = NULL;
    GPUR_TRY(gpur_consumer_begin(learner->replay, gpur_consumer_without_publishing, &stream));
    const int64_t count = gpur_tensor_count(tensor);
    gpur_status status = gpur_copy(stream, to, from, count * (int64_t)sizeof(float));
    if (status == GPUR_OK && patched)
        status = gpur_actor_patch(&learner->actor, stream, patched, tensor->offset, count);
    const gpur_status done = gpur_stream_sync(stream);
    return gpur_consumer_end(learner->replay, status == GPUR_OK ? done : status);
}

/* Copies a tensor's values from the device's order (`device_order`) to the order of its shape. `in_order` may be
 * unaligned. */
static void to_shape_order(const gpur_tensor *tensor, void *in_order, const float *device_order)
{
    for (int64_t i = 0; i < gpur_tensor_count(tensor); i++)
        memcpy((char *)in_order + i * (int64_t)sizeof *device_order, &device_order[gpur_tensor_index(tensor, i)],
               sizeof *device_order);
}

/* The reverse of to_shape_order. */
static void to_device_order(const gpur_tensor *tensor, const void *in_order, float *device_order)
{
    for (int64_t i = 0; i < gpur_tensor_count(tensor); i++)
        memcpy(&device_order[gpur_tensor_index(tensor, i)], (const char *)in_order + i * (int64_t)sizeof *device_order,
               sizeof *device_order);
}

/* Allocates host memory for a tensor whose order on the device is not that of its shape. Other tensors need none, and
 * *device_order is NULL. */
static gpur_status alloc_device_order(gpur_learner *learner, const gpur_tensor *tensor, float **device_order)
{
    const size_t bytes = (size_t)gpur_tensor_count(tensor) * sizeof **device_order;
    *device_order = tensor->space_to_depth > 1 ? gpur_host_alloc(learner->device, bytes) : NULL;
    if (tensor->space_to_depth > 1 && !*device_order)
        return gpur_fail(GPUR_OUT_OF_MEMORY, "no host memory for %zu bytes of \"%s\"", bytes, tensor->name);
    return GPUR_OK;
}

static void free_device_order(gpur_learner *learner, const gpur_tensor *tensor, float *device_order)
{
    if (device_order)
        gpur_host_free(learner->device, device_order, (size_t)gpur_tensor_count(tensor) * sizeof *device_order);
}

gpur_status gpur_learner_read_weights(gpur_learner *learner, int32_t which, const char *name, float *values,
                                      int64_t count)
{
    const gpur_tensor *tensor = NULL;
    GPUR_TRY(find(learner, name, values, count, &tensor));
    GPUR_REQUIRE(which >= GPUR_WEIGHTS_ONLINE && which <= GPUR_WEIGHTS_GRADIENT,
                 "which is %" PRId32 "; it must be GPUR_WEIGHTS_ONLINE, TARGET or GRADIENT (0 to 2)", which);
    float *device_order = NULL;
    GPUR_TRY(alloc_device_order(learner, tensor, &device_order));
    const gpur_status status = copy_locked(learner, device_order ? device_order : values,
                                           array_of(learner, which) + tensor->offset, tensor, NULL);
    if (device_order && status == GPUR_OK)
        to_shape_order(tensor, values, device_order);
    free_device_order(learner, tensor, device_order);
    return status;
}

gpur_status gpur_learner_write_weights(gpur_learner *learner, int32_t which, const char *name, const float *values,
                                       int64_t count)
{
    const gpur_tensor *tensor = NULL;
    GPUR_TRY(find(learner, name, values, count, &tensor));
    GPUR_REQUIRE(which == GPUR_WEIGHTS_ONLINE || which == GPUR_WEIGHTS_TARGET,
                 "which is %" PRId32 "; GPUR_WEIGHTS_ONLINE (0) and TARGET (1) can be written", which);
    GPUR_TRY(gpur_tensor_check_numbers(tensor, "", values, 0, GPUR_INVALID_ARGUMENT));
    float *const array = array_of(learner, which);
    const float *const acting = gpur_learner_acting_weights(learner);
    float *device_order = NULL;
    GPUR_TRY(alloc_device_order(learner, tensor, &device_order));
    if (device_order)
        to_device_order(tensor, values, device_order);
    const gpur_status status = copy_locked(learner, array + tensor->offset, device_order ? device_order : values,
                                           tensor, array == acting ? array : NULL);
    free_device_order(learner, tensor, device_order);
    return status;
}

/*
 * Saves the online network's tensors as a plain safetensors file, and loads them. The file is small enough to be built
 * in memory. Its checksum, 16 hexadecimal digits in the metadata, is that of the file with 16 zeros in their place.
 */

#define NO_CHECKSUM "0000000000000000"
enum { DIGITS = sizeof NO_CHECKSUM - 1 };

static gpur_status describe(const gpur_params *params, gpur_tensors *tensors)
{
    int64_t at = 0;
    GPUR_TRY(gpur_checkpoint_add_kind(tensors, "weights"));
    GPUR_TRY(gpur_tensors_add_metadata(tensors, "weights", "%" PRId64, gpur_params_weights(params)));
    GPUR_TRY(gpur_tensors_add_metadata(
        tensors, "gpureplay.about",
        "the checksum is XXH3 (64 bits) of the whole file with zeros in place of the checksum"));
    GPUR_TRY(gpur_tensors_add_metadata(tensors, "gpureplay.checksum", "%s", NO_CHECKSUM));
    for (int32_t i = 0; i < params->tensor_count; i++) {
        gpur_tensor_entry entry = entry_of(&params->tensor[i]);
        entry.begin = at;
        entry.end = at += gpur_tensor_bytes(&entry);
        GPUR_TRY(gpur_tensors_add(tensors, &entry));
    }
    return GPUR_OK;
}

/* Finds the digits of the checksum in a file's header; NULL if they are not there. */
static unsigned char *find_digits(unsigned char *file, int64_t head_bytes, const char *digits)
{
    static const char key[] = "\"gpureplay.checksum\":\"";
    unsigned char *const found = memmem(file, (size_t)head_bytes, key, sizeof key - 1);
    unsigned char *const at = found ? found + sizeof key - 1 : NULL;
    return at && file + head_bytes - at >= DIGITS && memcmp(at, digits, DIGITS) == 0 ? at : NULL;
}

static uint64_t checksum_without(unsigned char *file, int64_t bytes, unsigned char *digits)
{
    memcpy(digits, NO_CHECKSUM, DIGITS);
    return gpur_checksum(file, bytes);
}

/* A whole file in host memory. */
typedef struct image {
    gpur_device *device;
    unsigned char *memory; /* (bytes) head, then data */
    int64_t bytes, head_bytes;
} image;

static gpur_status alloc_image(image *im, int64_t bytes)
{
    im->bytes = bytes;
    im->memory = gpur_host_alloc(im->device, (size_t)bytes);
    return im->memory ? GPUR_OK
                      : gpur_fail(GPUR_OUT_OF_MEMORY, "no host memory for a weights file of %" PRId64 " bytes", bytes);
}

static void free_image(image *im)
{
    gpur_host_free(im->device, im->memory, (size_t)im->bytes);
}

static gpur_status download(gpur_learner *learner, unsigned char *to)
{
    const gpur_params *const params = &learner->network.params;
    gpur_stream *stream = NULL;
    gpur_status status = gpur_consumer_begin(learner->replay, gpur_consumer_without_publishing, &stream);
    GPUR_TRY(status);
    for (int32_t i = 0; i < params->tensor_count && status == GPUR_OK; i++) {
        const int64_t bytes = gpur_tensor_count(&params->tensor[i]) * (int64_t)sizeof(float);
        status = gpur_copy(stream, to, learner->step.optimizer.weights + params->tensor[i].offset, bytes);
        to += bytes;
    }
    const gpur_status done = gpur_stream_sync(stream);
    return gpur_consumer_end(learner->replay, status == GPUR_OK ? done : status);
}

/* Reorders the tensors' values in place, from the device's order to that of their shapes. */
static gpur_status all_to_shape_order(gpur_learner *learner, unsigned char *values)
{
    const gpur_params *const params = &learner->network.params;
    for (int32_t i = 0; i < params->tensor_count; i++) {
        const gpur_tensor *const tensor = &params->tensor[i];
        const int64_t bytes = gpur_tensor_count(tensor) * (int64_t)sizeof(float);
        float *device_order = NULL;
        GPUR_TRY(alloc_device_order(learner, tensor, &device_order));
        if (device_order) {
            memcpy(device_order, values, (size_t)bytes);
            to_shape_order(tensor, values, device_order);
        }
        free_device_order(learner, tensor, device_order);
        values += bytes;
    }
    return GPUR_OK;
}

static gpur_status build_image(image *im, gpur_learner *learner)
{
    const int64_t data = gpur_params_weights(&learner->network.params) * (int64_t)sizeof(float);
    char digits[DIGITS + 1];
    gpur_tensors tensors = {0};
    unsigned char *head = NULL;
    gpur_status status = describe(&learner->network.params, &tensors);
    if (status == GPUR_OK)
        status = gpur_tensors_print(&tensors, &head, &im->head_bytes);
    if (status == GPUR_OK)
        status = alloc_image(im, im->head_bytes + data);
    if (status == GPUR_OK)
        memcpy(im->memory, head, (size_t)im->head_bytes);
    free(head);
    gpur_tensors_free(&tensors);
    GPUR_TRY(status);
    GPUR_TRY(download(learner, im->memory + im->head_bytes));
    GPUR_TRY(all_to_shape_order(learner, im->memory + im->head_bytes));
    unsigned char *const digits_at = find_digits(im->memory, im->head_bytes, NO_CHECKSUM);
    snprintf(digits, sizeof digits, "%016" PRIx64, checksum_without(im->memory, im->bytes, digits_at));
    memcpy(digits_at, digits, DIGITS);
    return GPUR_OK;
}

static gpur_status write_image(const image *im, const char *path, const gpur_checkpoint_options *options)
{
    gpur_atomic_file file;
    GPUR_TRY(gpur_atomic_file_begin(&file, path, im->bytes));
    gpur_status status = gpur_atomic_file_write(&file, im->memory, im->bytes, 0);
    if (status == GPUR_OK)
        status = gpur_checkpoint_report_progress(options, im->bytes, im->bytes);
    if (status == GPUR_OK)
        status = gpur_atomic_file_commit(&file);
    gpur_atomic_file_discard(&file);
    return status;
}

gpur_status gpur_learner_save_weights(gpur_learner *learner, const char *path, const gpur_checkpoint_options *given)
{
    gpur_checkpoint_options options;
    GPUR_TRY(gpur_checkpoint_check_call(learner, "learner", path, given, &options));
    image im = {.device = learner->device};
    gpur_status status = build_image(&im, learner);
    if (status == GPUR_OK)
        status = write_image(&im, path, &options);
    free_image(&im);
    return status;
}

/* Verifies the checksum of a file that this library wrote. Files of other programs need none. */
static gpur_status check_image(const image *im, const gpur_checkpoint *file)
{
    const char *const digits = gpur_tensors_find_metadata(&file->tensors, "gpureplay.checksum");
    if (!gpur_checkpoint_is_ours(file))
        return GPUR_OK;
    GPUR_TRY(gpur_checkpoint_check_kind(file, "weights"));
    unsigned char *const digits_at =
        digits && strlen(digits) == DIGITS ? find_digits(im->memory, im->head_bytes, digits) : NULL;
    char expected[DIGITS + 1] = "";
    if (digits_at)
        snprintf(expected, sizeof expected, "%016" PRIx64, checksum_without(im->memory, im->bytes, digits_at));
    if (!digits_at || strcmp(expected, digits) != 0)
        return gpur_fail(GPUR_FILE_ERROR, "%s is not what was written: its checksum differs", file->file.path);
    return GPUR_OK;
}

static gpur_status read_image(image *im, const gpur_checkpoint *file, const gpur_checkpoint_options *options)
{
    im->head_bytes = file->data_at;
    GPUR_TRY(alloc_image(im, file->file.bytes));
    if (gpur_file_reader_read(&file->file, im->memory, im->bytes, 0) != GPUR_OK)
        return gpur_fail(GPUR_FILE_ERROR, "%s: it cannot be read, or has become shorter", file->file.path);
    GPUR_TRY(gpur_checkpoint_report_progress(options, im->bytes, im->bytes));
    return check_image(im, file);
}

static gpur_status check_weights(const gpur_params *params, const float *weights)
{
    for (int32_t i = 0; i < params->tensor_count; i++)
        GPUR_TRY(
            gpur_tensor_check_numbers(&params->tensor[i], "", weights + params->tensor[i].offset, 0, GPUR_FILE_ERROR));
    return GPUR_OK;
}

/* Copies the file's tensors to their offsets in `weights`, (P) in host memory, in the device's order. */
static gpur_status read_tensors(const image *im, const gpur_checkpoint *file, const gpur_params *params, float *weights)
{
    gpur_sections sections = {0};
    gpur_section *added = NULL;
    gpur_status status = GPUR_OK;
    for (int32_t i = 0; i < params->tensor_count && status == GPUR_OK; i++) {
        const gpur_tensor_entry entry = entry_of(&params->tensor[i]);
        status = gpur_sections_add_entry(&sections, &entry, &added);
    }
    if (status == GPUR_OK)
        status = gpur_checkpoint_match(file, &sections, "this network", 0);
    for (int32_t i = 0; i < params->tensor_count && status == GPUR_OK; i++) {
        const gpur_tensor *const tensor = &params->tensor[i];
        const unsigned char *const values = im->memory + im->head_bytes + sections.list[i].entry.begin;
        if (tensor->space_to_depth > 1)
            to_device_order(tensor, values, weights + tensor->offset);
        else
            memcpy(weights + tensor->offset, values, (size_t)gpur_tensor_count(tensor) * sizeof *weights);
    }
    gpur_sections_free(&sections);
    return status;
}

static gpur_status upload(gpur_learner *learner, const float *weights)
{
    const gpur_optimizer *const optimizer = &learner->step.optimizer;
    const int64_t bytes = optimizer->count * (int64_t)sizeof(float);
    gpur_stream *stream = NULL;
    gpur_status status = gpur_consumer_begin(learner->replay, gpur_consumer_without_publishing, &stream);
    GPUR_TRY(status);
    status = gpur_copy(stream, optimizer->weights, weights, bytes);
    if (status == GPUR_OK)
        status = gpur_copy(stream, optimizer->target, weights, bytes);
    if (status == GPUR_OK)
        status = gpur_actor_patch(&learner->actor, stream, weights, 0, optimizer->count);
    const gpur_status done = gpur_stream_sync(stream);
    return gpur_consumer_end(learner->replay, status == GPUR_OK ? done : status);
}

static gpur_status load_image(gpur_learner *learner, const image *im, const gpur_checkpoint *file)
{
    const size_t bytes = (size_t)learner->network.params.count * sizeof(float);
    float *const weights = gpur_host_alloc(learner->device, bytes);
    if (!weights)
        return gpur_fail(GPUR_OUT_OF_MEMORY, "no host memory for %zu bytes of weights", bytes);
    gpur_status status = read_tensors(im, file, &learner->network.params, weights);
    if (status == GPUR_OK)
        status = gpur_checkpoint_add_path_to_error(file, check_weights(&learner->network.params, weights));
    if (status == GPUR_OK)
        status = upload(learner, weights);
    gpur_host_free(learner->device, weights, bytes);
    return status;
}

gpur_status gpur_learner_load_weights(gpur_learner *learner, const char *path, const gpur_checkpoint_options *given)
{
    gpur_checkpoint_options options;
    gpur_checkpoint file;
    GPUR_TRY(gpur_checkpoint_check_call(learner, "learner", path, given, &options));
    GPUR_TRY(gpur_checkpoint_open(&file, path));
    image im = {.device = learner->device};
    gpur_status status = read_image(&im, &file, &options);
    if (status == GPUR_OK)
        status = load_image(learner, &im, &file);
    free_image(&im);
    gpur_checkpoint_close(&file);
    return status;
}
