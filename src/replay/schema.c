/* SPDX-License-Identifier: MIT */
#include "replay/schema.h"

#include "base/numbers.h"
#include "base/utf8.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

int64_t gpur_field_elements(const gpur_field_info *field)
{
    return field->bytes / gpur_dtype_bytes(field->dtype);
}

int32_t gpur_schema_find(const gpur_schema *schema, const char *name)
{
    for (int32_t i = 0; i < schema->count; i++)
        if (strcmp(schema->fields[i].name, name) == 0)
            return i;
    return -1;
}

int gpur_schema_has_previous(const gpur_schema *schema)
{
    const int32_t previous = gpur_schema_find(schema, "previous");
    return previous >= 0 && schema->fields[previous].dtype == GPUR_INT64 && schema->fields[previous].bytes == 8;
}

int gpur_schema_has_sequences(const gpur_schema *schema)
{
    return gpur_schema_has_previous(schema) && gpur_schema_find(schema, "mask") < 0 &&
           gpur_schema_find(schema, "is_first") < 0;
}

static gpur_status check_name(const gpur_schema *schema, const char *name)
{
    const int32_t index = schema->count;
    GPUR_REQUIRE(name, "field %d has no name (NULL)", (int)index);
    const size_t length = strnlen(name, GPUR_MAX_NAME);
    GPUR_REQUIRE(length >= 1 && length < GPUR_MAX_NAME, "the name of field %d has %s characters; it must have 1 to %d",
                 (int)index, length ? "64 or more" : "no", GPUR_MAX_NAME - 1);
    _Static_assert(GPUR_MAX_NAME == 64, "the message says 64");
    for (size_t at = 0, step = 0; at < length; at += step) {
        step = gpur_utf8_length(name + at, length - at);
        GPUR_REQUIRE(step > 0, "the name of field %d, \"%s\", is no text in UTF-8 without control characters",
                     (int)index, name);
    }
    GPUR_REQUIRE(gpur_schema_find(schema, name) < 0, "fields %d and %d are both named \"%s\"; names must be unique",
                 (int)gpur_schema_find(schema, name), (int)index, name);
    GPUR_REQUIRE(strcmp(name, "weight") != 0 && strcmp(name, "id") != 0,
                 "field %d is named \"%s\", which every batch has already; choose another name", (int)index, name);
    return GPUR_OK;
}

/* Fills in dims, shape and bytes. */
static gpur_status read_shape(gpur_field_info *info, const int32_t *shape)
{
    info->bytes = gpur_dtype_bytes(info->dtype);
    for (int32_t d = 0; d < GPUR_MAX_DIMS && shape[d] != 0; d++) {
        GPUR_REQUIRE(shape[d] > 0, "field \"%s\" has %d in its shape; an axis is at least 1 long", info->name,
                     (int)shape[d]);
        info->bytes *= shape[d];
        GPUR_REQUIRE(info->bytes <= GPUR_MAX_ROW_BYTES,
                     "field \"%s\" is over %d bytes; that is the most a row may have", info->name, GPUR_MAX_ROW_BYTES);
        info->shape[d] = shape[d];
        info->dims = d + 1;
    }
    for (int32_t d = info->dims; d < GPUR_MAX_DIMS; d++)
        GPUR_REQUIRE(shape[d] == 0, "field \"%s\" has %d in its shape after a 0, which ends a shape", info->name,
                     (int)shape[d]);
    return GPUR_OK;
}

/* The library itself reads "terminated" and "discount" of stored rows to compute a batch's discount. */
static gpur_status check_meaning(const gpur_field_info *info)
{
    const int one_byte = info->bytes == 1, one_float = info->dtype == GPUR_FLOAT32 && info->bytes == 4;
    GPUR_REQUIRE(strcmp(info->name, "terminated") != 0 || one_byte,
                 "field \"terminated\" is %s of %" PRId64 " bytes; it must be one bool or uint8",
                 gpur_dtype_name(info->dtype), info->bytes);
    GPUR_REQUIRE(strcmp(info->name, "discount") != 0 || one_float,
                 "field \"discount\" is %s of %" PRId64 " bytes; it must be one float32", gpur_dtype_name(info->dtype),
                 info->bytes);
    return GPUR_OK;
}

/* "terminated" and "truncated" are flags even if they are uint8, because steps and learners read them as flags. */
static int is_flag(const gpur_field_info *info)
{
    const int ends = strcmp(info->name, "terminated") == 0 || strcmp(info->name, "truncated") == 0;
    return info->dtype == GPUR_BOOL || (ends && info->bytes == 1);
}

/* NaN in "priority" means that none is given (priority.h). */
int gpur_field_is_real(const gpur_field_info *info)
{
    return (info->dtype == GPUR_FLOAT32 || info->dtype == GPUR_FLOAT16) && strcmp(info->name, "priority") != 0;
}

static gpur_status add_field(gpur_schema *schema, const gpur_field *field)
{
    gpur_field_info info = {.size = sizeof info, .dtype = field->dtype};
    GPUR_TRY(check_name(schema, field->name));
    snprintf(info.name, sizeof info.name, "%s", field->name);
    GPUR_REQUIRE(gpur_dtype_bytes(field->dtype),
                 "field \"%s\" has dtype %d; it must be GPUR_FLOAT32 (%d) to GPUR_BOOL (%d)", info.name,
                 (int)field->dtype, GPUR_FLOAT32, GPUR_BOOL);
    GPUR_TRY(read_shape(&info, field->shape));
    GPUR_TRY(check_meaning(&info));
    info.offset = gpur_round_up(schema->row_bytes, gpur_dtype_bytes(info.dtype));
    schema->row_bytes = info.offset + info.bytes;
    schema->is_flag[schema->count] = (unsigned char)is_flag(&info);
    schema->flags += is_flag(&info);
    schema->is_real[schema->count] = (unsigned char)gpur_field_is_real(&info);
    schema->reals += gpur_field_is_real(&info);
    schema->fields[schema->count++] = info;
    return GPUR_OK;
}

gpur_status gpur_schema_build(gpur_schema *schema, const gpur_field *fields, int32_t count)
{
    gpur_schema built = {0};
    int64_t widest = 1;
    GPUR_REQUIRE(fields, "gpur_replay_config.fields is NULL; it must be the fields of a transition");
    GPUR_REQUIRE(count >= 1 && count <= GPUR_MAX_FIELDS, "gpur_replay_config.field_count is %d; it must be 1 to %d",
                 (int)count, GPUR_MAX_FIELDS);
    for (int32_t i = 0; i < count; i++) {
        GPUR_TRY(add_field(&built, &fields[i]));
        const int64_t element = gpur_dtype_bytes(fields[i].dtype);
        widest = element > widest ? element : widest;
    }
    built.priority = gpur_schema_find(&built, "priority");
    if (built.priority >= 0 && !(built.fields[built.priority].dtype == GPUR_FLOAT32 &&
                                 built.fields[built.priority].bytes == sizeof(float)))
        built.priority = -1;
    built.terminated = gpur_schema_find(&built, "terminated");
    built.discount = gpur_schema_find(&built, "discount");
    built.row_bytes = gpur_round_up(built.row_bytes, widest);
    built.pitch = gpur_round_up(built.row_bytes, GPUR_ROW_GRANULE);
    GPUR_REQUIRE(built.pitch <= GPUR_MAX_ROW_BYTES, "a row has %" PRId64 " bytes; it may have at most %d",
                 built.row_bytes, GPUR_MAX_ROW_BYTES);
    *schema = built;
    return GPUR_OK;
}
