/* SPDX-License-Identifier: MIT */
/* Weights files: safetensors with a checksum of the whole file. */
#include "learn/weights_file.h"

#include "base/numbers.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NO_CHECKSUM "0000000000000000"
enum { DIGITS = sizeof NO_CHECKSUM - 1 };

gpur_status gpur_weights_alloc(gpur_device *device, const gpur_params *params, float **weights)
{
    const size_t bytes = (size_t)params->count * sizeof **weights;
    *weights = gpur_host_alloc(device, bytes);
    return *weights ? GPUR_OK : gpur_fail(GPUR_OUT_OF_MEMORY, "no host memory for %zu bytes of weights", bytes);
}

void gpur_weights_free(gpur_device *device, const gpur_params *params, float *weights)
{
    gpur_host_free(device, weights, (size_t)params->count * sizeof *weights);
}

static gpur_tensor_entry entry_of(const gpur_tensor *tensor)
{
    gpur_tensor_entry entry = {.type = GPUR_F32};
    entry.dims = gpur_tensor_shape(tensor, entry.shape);
    snprintf(entry.name, sizeof entry.name, "%s", tensor->name);
    return entry;
}

static gpur_status describe(const gpur_params *params, const gpur_weights_about *about, gpur_tensors *tensors)
{
    const gpur_network_text *const text = &about->text;
    int64_t at = 0;
    GPUR_TRY(gpur_checkpoint_add_kind(tensors, "weights"));
    GPUR_TRY(gpur_tensors_add_metadata(tensors, "weights", "%" PRId64, gpur_params_weights(params)));
    GPUR_TRY(gpur_tensors_add_metadata(tensors, GPUR_WEIGHTS_VERSION, "%" PRId64, about->version));
    GPUR_TRY(gpur_network_text_add_settings(text->network, "", tensors));
    GPUR_TRY(gpur_network_text_add_rest(text, tensors));
    for (int32_t i = 0; about->more && i < about->more->metadata_count; i++)
        GPUR_TRY(
            gpur_tensors_add_metadata(tensors, about->more->metadata[i].key, "%s", about->more->metadata[i].value));
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

static gpur_status build_image(image *im, const gpur_params *params, const gpur_weights_about *about,
                               const float *weights)
{
    const int64_t data = gpur_params_weights(params) * (int64_t)sizeof(float);
    char digits[DIGITS + 1];
    gpur_tensors tensors = {0};
    unsigned char *head = NULL;
    gpur_status status = describe(params, about, &tensors);
    if (status == GPUR_OK)
        status = gpur_tensors_print(&tensors, &head, &im->head_bytes);
    if (status == GPUR_OK)
        status = alloc_image(im, im->head_bytes + data);
    if (status == GPUR_OK)
        memcpy(im->memory, head, (size_t)im->head_bytes);
    free(head);
    gpur_tensors_free(&tensors);
    GPUR_TRY(status);
    gpur_params_to_shape_order(params, weights, im->memory + im->head_bytes);
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

gpur_status gpur_weights_file_save(gpur_device *device, const gpur_params *params, const gpur_weights_about *about,
                                   const float *weights, const char *path, const gpur_checkpoint_options *options)
{
    image im = {.device = device};
    GPUR_TRY(
        gpur_prefix_error(gpur_params_check_numbers(params, "", weights, GPUR_FILE_ERROR), "%s is not written", path));
    gpur_status status = build_image(&im, params, about, weights);
    if (status == GPUR_OK)
        status = write_image(&im, path, options);
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

/* Copies the file's tensors to their offsets in `weights`. */
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
        gpur_tensor_to_device_order(tensor, values, weights + tensor->offset);
    }
    gpur_sections_free(&sections);
    return status;
}

gpur_status gpur_weights_file_load(gpur_device *device, const gpur_params *params, const gpur_checkpoint *file,
                                   const gpur_checkpoint_options *options, float *weights, int64_t *version)
{
    image im = {.device = device};
    gpur_status status = read_image(&im, file, options);
    if (status == GPUR_OK)
        status = read_tensors(&im, file, params, weights);
    free_image(&im);
    GPUR_TRY(status);
    *version = gpur_max(gpur_metadata_number(&file->tensors, GPUR_WEIGHTS_VERSION, 0), 0);
    return gpur_checkpoint_add_path_to_error(file, gpur_params_check_numbers(params, "", weights, GPUR_FILE_ERROR));
}
