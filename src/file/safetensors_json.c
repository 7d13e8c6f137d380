/* SPDX-License-Identifier: MIT */
/* Parses and prints the JSON header with cJSON, and computes checksums with xxHash (header only). safetensors_none.c
 * replaces this file in builds without them. */
#define XXH_INLINE_ALL
#include "file/safetensors.h"

#include "base/utf8.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

enum { HEAD_ALIGNMENT = 64, LENGTH_BYTES = 8 };
static const double max_bytes = 281474976710656.0; /* 2^48: doubles are exact up to it, and cJSON prints all digits */

gpur_status gpur_tensors_available(void)
{
    return GPUR_OK;
}

uint64_t gpur_checksum(const void *data, int64_t bytes)
{
    return XXH3_64bits(data, (size_t)bytes);
}

uint64_t gpur_checksum_of_two(const void *first, int64_t first_bytes, const void *second, int64_t second_bytes)
{
    XXH3_state_t state;
    XXH3_64bits_reset(&state);
    XXH3_64bits_update(&state, first, (size_t)first_bytes);
    XXH3_64bits_update(&state, second, (size_t)second_bytes);
    return XXH3_64bits_digest(&state);
}

gpur_status gpur_checksum_available(void)
{
    return GPUR_OK;
}

static gpur_status refuse(const char *name, const char *why)
{
    return gpur_fail(GPUR_FILE_ERROR, "the header's \"%.64s\" %s", name, why);
}

/* Reads an integer from 0 to 2^48. Returns 0 if the item is anything else. */
static int read_number(const cJSON *item, int64_t *value)
{
    if (!cJSON_IsNumber(item) || !(item->valuedouble >= 0.0 && item->valuedouble <= max_bytes))
        return 0;
    *value = (int64_t)item->valuedouble;
    return (double)*value == item->valuedouble;
}

static gpur_status read_shape(const cJSON *shape, gpur_tensor_entry *entry)
{
    const cJSON *item;
    if (!cJSON_IsArray(shape))
        return refuse(entry->name, "has no shape");
    cJSON_ArrayForEach(item, shape)
    {
        if (entry->dims == GPUR_TENSOR_DIMS)
            return refuse(entry->name, "has more than 8 axes");
        if (!read_number(item, &entry->shape[entry->dims++]))
            return refuse(entry->name, "has a shape that is not of whole numbers from 0 to 2^48");
    }
    return GPUR_OK;
}

static gpur_status read_offsets(const cJSON *offsets, gpur_tensor_entry *entry)
{
    if (!cJSON_IsArray(offsets) || cJSON_GetArraySize(offsets) != 2 ||
        !read_number(cJSON_GetArrayItem(offsets, 0), &entry->begin) ||
        !read_number(cJSON_GetArrayItem(offsets, 1), &entry->end) || entry->end < entry->begin)
        return refuse(entry->name, "has no data_offsets of two rising whole numbers from 0 to 2^48");
    return GPUR_OK;
}

static gpur_status read_tensor(gpur_tensors *tensors, const cJSON *item)
{
    gpur_tensor_entry entry = {.type = -1};
    const cJSON *const type = cJSON_GetObjectItemCaseSensitive(item, "dtype");
    if (strlen(item->string) >= sizeof entry.name)
        return refuse(item->string, "is too long a name; 95 bytes are the most");
    memcpy(entry.name, item->string, strlen(item->string));
    if (!cJSON_IsObject(item) || cJSON_GetArraySize(item) != 3)
        return refuse(entry.name, "is no object of dtype, shape and data_offsets");
    if (cJSON_IsString(type))
        entry.type = gpur_tensor_type_find(type->valuestring);
    if (entry.type < 0)
        return refuse(entry.name, "has no dtype that is known");
    GPUR_TRY(read_shape(cJSON_GetObjectItemCaseSensitive(item, "shape"), &entry));
    GPUR_TRY(read_offsets(cJSON_GetObjectItemCaseSensitive(item, "data_offsets"), &entry));
    return gpur_tensors_add(tensors, &entry);
}

static gpur_status read_metadata(gpur_tensors *tensors, const cJSON *metadata)
{
    const cJSON *item;
    if (!cJSON_IsObject(metadata))
        return refuse("__metadata__", "is no object");
    cJSON_ArrayForEach(item, metadata)
    {
        if (!cJSON_IsString(item))
            return refuse("__metadata__", "has a value that is no string");
        if (strlen(item->string) >= GPUR_METADATA_KEY || strlen(item->valuestring) >= GPUR_METADATA_VALUE)
            continue;
        if (gpur_tensors_find_metadata(tensors, item->string))
            return refuse("__metadata__", "has a key twice");
        GPUR_TRY(gpur_tensors_add_metadata(tensors, item->string, "%s", item->valuestring));
    }
    return GPUR_OK;
}

static gpur_status read_all(gpur_tensors *tensors, const cJSON *json)
{
    const cJSON *item;
    int seen = 0;
    cJSON_ArrayForEach(item, json)
    {
        const int is_metadata = strcmp(item->string, "__metadata__") == 0;
        if (is_metadata && seen++)
            return refuse("__metadata__", "is there twice");
        GPUR_TRY(is_metadata ? read_metadata(tensors, item) : read_tensor(tensors, item));
    }
    return GPUR_OK;
}

static int is_space(char byte)
{
    return byte == ' ' || byte == '\t' || byte == '\n' || byte == '\r';
}

/* Returns 1 if all of `text` is valid UTF-8 without control characters, except line ends and tabs outside of JSON's
 * strings [RFC 8259, section 2]. cJSON does not check this. */
static int is_text(const char *text, size_t length)
{
    int is_string = 0;
    size_t step = 1;
    for (size_t at = 0; at < length; at += step) {
        step = !is_string && is_space(text[at]) ? 1 : gpur_utf8_length(text + at, length - at);
        if (step == 0)
            return 0;
        if (is_string && text[at] == '\\' && at + 1 < length && (text[at + 1] == '"' || text[at + 1] == '\\'))
            step = 2;
        else if (text[at] == '"')
            is_string = !is_string;
    }
    return 1;
}

gpur_status gpur_tensors_parse(gpur_tensors *tensors, const char *text, size_t length)
{
    if (!is_text(text, length))
        return gpur_fail(GPUR_FILE_ERROR, "its header is not text in UTF-8");
    const char *end = NULL;
    errno = 0; /* cJSON gives no reason for a failure, but an allocator that fails sets errno */
    cJSON *const json = length && text[0] == '{' ? cJSON_ParseWithLengthOpts(text, length, &end, 0) : NULL;
    if (!json && errno == ENOMEM)
        return gpur_fail(GPUR_OUT_OF_MEMORY, "no memory for a file's header of %zu bytes", length);
    if (!json)
        return gpur_fail(GPUR_FILE_ERROR, "its header is not JSON");
    while (end < text + length && is_space(*end))
        end++;
    const gpur_status status = end == text + length ? read_all(tensors, json)
                                                    : gpur_fail(GPUR_FILE_ERROR, "something follows its header's JSON");
    cJSON_Delete(json);
    return status;
}

/* cJSON owns the number only if it could be added; otherwise the caller must delete it. */
static int add_number(cJSON *array, int64_t value)
{
    cJSON *const number = cJSON_CreateNumber((double)value);
    if (cJSON_AddItemToArray(array, number))
        return 1;
    cJSON_Delete(number);
    return 0;
}

static int print_tensor(cJSON *json, const gpur_tensor_entry *entry)
{
    cJSON *const item = cJSON_AddObjectToObject(json, entry->name);
    int good = cJSON_AddStringToObject(item, "dtype", gpur_tensor_types[entry->type].name) != NULL;
    cJSON *const shape = cJSON_AddArrayToObject(item, "shape");
    for (int32_t i = 0; i < entry->dims; i++)
        good &= add_number(shape, entry->shape[i]);
    cJSON *const offsets = cJSON_AddArrayToObject(item, "data_offsets");
    good &= add_number(offsets, entry->begin);
    return good & add_number(offsets, entry->end);
}

static char *print_json(const gpur_tensors *tensors)
{
    cJSON *const json = cJSON_CreateObject();
    cJSON *const metadata = cJSON_AddObjectToObject(json, "__metadata__");
    int good = metadata != NULL;
    for (int32_t i = 0; i < tensors->metadata_count; i++)
        good &= cJSON_AddStringToObject(metadata, tensors->metadata[i].key, tensors->metadata[i].value) != NULL;
    for (int32_t i = 0; i < tensors->count; i++)
        good &= print_tensor(json, &tensors->entries[i]);
    char *const text = good ? cJSON_PrintUnformatted(json) : NULL;
    cJSON_Delete(json);
    return text;
}

gpur_status gpur_tensors_print(const gpur_tensors *tensors, unsigned char **head, int64_t *bytes)
{
    char *const text = print_json(tensors);
    const size_t length = text ? strlen(text) : 0;
    const size_t padded = (LENGTH_BYTES + length + HEAD_ALIGNMENT - 1) / HEAD_ALIGNMENT * HEAD_ALIGNMENT;
    *head = text ? malloc(padded) : NULL;
    *bytes = (int64_t)padded;
    if (*head) {
        memset(*head, ' ', padded);
        for (int i = 0; i < LENGTH_BYTES; i++)
            (*head)[i] = (unsigned char)((uint64_t)(padded - LENGTH_BYTES) >> 8 * i);
        memcpy(*head + LENGTH_BYTES, text, length);
    }
    cJSON_free(text);
    return *head ? GPUR_OK : gpur_fail(GPUR_OUT_OF_MEMORY, "no memory for a file's header");
}
