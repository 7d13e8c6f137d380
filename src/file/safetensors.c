/* SPDX-License-Identifier: MIT */
#include "file/safetensors.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const gpur_tensor_type gpur_tensor_types[] = {
    {"U8", 1},  {"I32", 4}, {"I64", 8}, {"F32", 4},  {"BOOL", 1}, {"I8", 1},  {"F8_E5M2", 1}, {"F8_E4M3", 1},
    {"I16", 2}, {"U16", 2}, {"F16", 2}, {"BF16", 2}, {"U32", 4},  {"F64", 8}, {"U64", 8},
};
enum { TYPES = sizeof gpur_tensor_types / sizeof *gpur_tensor_types };

int32_t gpur_tensor_type_find(const char *name)
{
    for (int32_t i = 0; i < TYPES; i++)
        if (strcmp(gpur_tensor_types[i].name, name) == 0)
            return i;
    return -1;
}

void gpur_tensors_free(gpur_tensors *tensors)
{
    free(tensors->entries);
    free(tensors->metadata);
    *tensors = (gpur_tensors){0};
}

gpur_status gpur_list_grow(void **list, int32_t count, int32_t *room, size_t size)
{
    if (count < *room)
        return GPUR_OK;
    const int32_t wanted = *room ? 2 * *room : 16;
    void *const grown = realloc(*list, (size_t)wanted * size);
    if (!grown)
        return gpur_fail(GPUR_OUT_OF_MEMORY, "no memory for a list of %d parts of a file", (int)wanted);
    *list = grown;
    *room = wanted;
    return GPUR_OK;
}

gpur_status gpur_tensors_add(gpur_tensors *tensors, const gpur_tensor_entry *entry)
{
    void *list = tensors->entries;
    const gpur_status status = gpur_list_grow(&list, tensors->count, &tensors->room, sizeof *entry);
    tensors->entries = list;
    if (status == GPUR_OK)
        tensors->entries[tensors->count++] = *entry;
    return status;
}

gpur_status gpur_tensors_add_metadata(gpur_tensors *tensors, const char *key, const char *format, ...)
{
    va_list arguments;
    void *list = tensors->metadata;
    if (tensors->metadata_count == GPUR_MAX_METADATA)
        return gpur_fail(GPUR_FILE_ERROR, "a file would have more than %d notes", GPUR_MAX_METADATA);
    const gpur_status status =
        gpur_list_grow(&list, tensors->metadata_count, &tensors->metadata_room, sizeof *tensors->metadata);
    tensors->metadata = list;
    GPUR_TRY(status);
    gpur_metadata_entry *const item = &tensors->metadata[tensors->metadata_count++];
    snprintf(item->key, sizeof item->key, "%s", key);
    va_start(arguments, format);
    vsnprintf(item->value, sizeof item->value, format, arguments);
    va_end(arguments);
    return GPUR_OK;
}

const gpur_tensor_entry *gpur_tensors_find(const gpur_tensors *tensors, const char *name)
{
    for (int32_t i = 0; i < tensors->count; i++)
        if (strcmp(tensors->entries[i].name, name) == 0)
            return &tensors->entries[i];
    return NULL;
}

const char *gpur_tensors_find_metadata(const gpur_tensors *tensors, const char *key)
{
    for (int32_t i = 0; i < tensors->metadata_count; i++)
        if (strcmp(tensors->metadata[i].key, key) == 0)
            return tensors->metadata[i].value;
    return NULL;
}

int64_t gpur_tensor_bytes(const gpur_tensor_entry *entry)
{
    int64_t bytes = gpur_tensor_types[entry->type].bytes;
    for (int32_t i = 0; i < entry->dims; i++)
        if (__builtin_mul_overflow(bytes, entry->shape[i], &bytes))
            return -1;
    return bytes;
}

static int by_offset(const void *a, const void *b)
{
    const gpur_tensor_entry *const x = a, *const y = b;
    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    return x->end < y->end ? -1 : x->end > y->end;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static gpur_status check_names(const gpur_tensors *tensors)
{
    const char **const names = calloc((size_t)tensors->count + 1, sizeof *names);
    if (!names)
        return gpur_fail(GPUR_OUT_OF_MEMORY, "no memory for the names of %d tensors", (int)tensors->count);
    for (int32_t i = 0; i < tensors->count; i++)
        names[i] = tensors->entries[i].name;
    qsort(names, (size_t)tensors->count, sizeof *names, by_name);
    gpur_status status = GPUR_OK;
    for (int32_t i = 1; i < tensors->count && status == GPUR_OK; i++)
        if (strcmp(names[i - 1], names[i]) == 0)
            status = gpur_fail(GPUR_FILE_ERROR, "tensor \"%s\" is there twice", names[i]);
    free(names);
    return status;
}

gpur_status gpur_tensors_check(gpur_tensors *tensors, int64_t data_bytes)
{
    int64_t at = 0;
    if (tensors->count > 0)
        qsort(tensors->entries, (size_t)tensors->count, sizeof *tensors->entries, by_offset);
    for (int32_t i = 0; i < tensors->count; i++) {
        const gpur_tensor_entry *const entry = &tensors->entries[i];
        const int64_t bytes = gpur_tensor_bytes(entry);
        if (entry->begin != at)
            return gpur_fail(GPUR_FILE_ERROR,
                             "tensor \"%s\" begins at byte %" PRId64 " of the data; the one before "
                             "it ends at %" PRId64,
                             entry->name, entry->begin, at);
        if (bytes < 0 || bytes != entry->end - entry->begin)
            return gpur_fail(GPUR_FILE_ERROR,
                             "tensor \"%s\" has %" PRId64 " bytes; by its type and shape it has %s%" PRId64,
                             entry->name, entry->end - entry->begin, bytes < 0 ? "too many: " : "", bytes);
        at = entry->end;
    }
    if (at != data_bytes)
        return gpur_fail(GPUR_FILE_ERROR, "there are %" PRId64 " bytes of data; the header speaks of %" PRId64,
                         data_bytes, at);
    return check_names(tensors);
}
