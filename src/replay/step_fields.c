/* SPDX-License-Identifier: MIT */
#include "replay/step_fields.h"

#include <inttypes.h>
#include <string.h>

int gpur_step_fields_is_extra(const gpur_step_fields *f, int32_t field)
{
    const int32_t filled[] = {f->obs,        f->action,    f->reward,   f->next_obs,
                              f->terminated, f->truncated, f->discount, f->previous};
    for (size_t i = 0; i < sizeof filled / sizeof *filled; i++)
        if (filled[i] == field)
            return 0;
    return 1;
}

gpur_step_fields gpur_step_fields_find(const gpur_schema *schema)
{
    gpur_step_fields fields = {
        .obs = gpur_schema_find(schema, "obs"),
        .action = gpur_schema_find(schema, "action"),
        .reward = gpur_schema_find(schema, "reward"),
        .next_obs = gpur_schema_find(schema, "next_obs"),
        .terminated = gpur_schema_find(schema, "terminated"),
        .truncated = gpur_schema_find(schema, "truncated"),
        .discount = gpur_schema_find(schema, "discount"),
        .previous = gpur_schema_find(schema, "previous"),
        .extra = -1,
    };
    for (int32_t field = schema->count - 1; field >= 0; field--)
        if (gpur_step_fields_is_extra(&fields, field))
            fields.extra = field;
    return fields;
}

static gpur_status check_there(const gpur_step_fields *f)
{
    GPUR_REQUIRE(f->obs >= 0 && f->action >= 0 && f->reward >= 0 && f->next_obs >= 0 && f->terminated >= 0,
                 "the schema has no field \"%s\"; gpur_writer_step needs obs, action, reward, next_obs and terminated",
                 f->obs < 0        ? "obs"
                 : f->action < 0   ? "action"
                 : f->reward < 0   ? "reward"
                 : f->next_obs < 0 ? "next_obs"
                                   : "terminated");
    return GPUR_OK;
}

/* The schema itself has seen to terminated and discount. */
gpur_status gpur_step_fields_check(const gpur_step_fields *f, const gpur_schema *schema)
{
    GPUR_TRY(check_there(f));
    const gpur_field_info *const obs = &schema->fields[f->obs], *const next = &schema->fields[f->next_obs];
    GPUR_REQUIRE(obs->dtype == next->dtype && memcmp(obs->shape, next->shape, sizeof obs->shape) == 0,
                 "fields \"obs\" and \"next_obs\" differ in type or shape; gpur_writer_step needs them alike");
    const gpur_field_info *const reward = &schema->fields[f->reward];
    GPUR_REQUIRE(reward->dtype == GPUR_FLOAT32 && reward->bytes == 4,
                 "field \"reward\" is %s of %" PRId64 " bytes; gpur_writer_step needs one float32",
                 gpur_dtype_name(reward->dtype), reward->bytes);
    GPUR_REQUIRE(f->truncated < 0 || schema->fields[f->truncated].bytes == 1,
                 "field \"truncated\" has %" PRId64 " bytes; gpur_writer_step needs one bool or uint8",
                 schema->fields[f->truncated].bytes);
    const gpur_field_info *const previous = f->previous < 0 ? NULL : &schema->fields[f->previous];
    GPUR_REQUIRE(!previous || (previous->dtype == GPUR_INT64 && previous->bytes == 8),
                 "field \"previous\" is %s of %" PRId64 " bytes; gpur_writer_step needs one int64",
                 gpur_dtype_name(previous->dtype), previous->bytes);
    return GPUR_OK;
}
