/* SPDX-License-Identifier: MIT */
#include "learn/fields.h"

#include <inttypes.h>

static gpur_status find(const gpur_schema *schema, const char *name, int32_t *index)
{
    *index = gpur_schema_find(schema, name);
    GPUR_REQUIRE(*index >= 0,
                 "the replay has no field \"%s\"; a learner needs obs, action, reward, next_obs, terminated", name);
    return GPUR_OK;
}

static gpur_status find_float(const gpur_schema *schema, const char *name, int32_t *index)
{
    GPUR_TRY(find(schema, name, index));
    GPUR_REQUIRE(schema->fields[*index].dtype == GPUR_FLOAT32, "field \"%s\" is %s; a learner needs float32", name,
                 gpur_dtype_name(schema->fields[*index].dtype));
    return GPUR_OK;
}

static gpur_status check_one(const gpur_schema *schema, const char *name, int32_t index)
{
    const int64_t elements = gpur_field_elements(&schema->fields[index]);
    GPUR_REQUIRE(elements == 1, "field \"%s\" has %" PRId64 " numbers a transition; a learner needs one", name,
                 elements);
    return GPUR_OK;
}

static gpur_status find_action(gpur_learn_fields *fields, const gpur_schema *schema)
{
    GPUR_TRY(find(schema, "action", &fields->action));
    const int32_t dtype = schema->fields[fields->action].dtype;
    GPUR_REQUIRE(dtype == GPUR_INT32 || dtype == GPUR_INT64,
                 "field \"action\" is %s; a learner of action values needs int32 or int64", gpur_dtype_name(dtype));
    fields->wide_action = dtype == GPUR_INT64;
    return check_one(schema, "action", fields->action);
}

static gpur_status find_obs(const gpur_schema *schema, const char *name, int32_t *index)
{
    GPUR_TRY(find(schema, name, index));
    const int32_t dtype = schema->fields[*index].dtype;
    GPUR_REQUIRE(dtype == GPUR_FLOAT32 || dtype == GPUR_UINT8,
                 "field \"%s\" is %s; a learner needs float32 or uint8 (for discrete observations: one-hot)", name,
                 gpur_dtype_name(dtype));
    return GPUR_OK;
}

static void describe_obs(gpur_learn_fields *fields, const gpur_field_info *obs)
{
    fields->features = gpur_field_elements(obs);
    fields->obs_floats = obs->dtype == GPUR_FLOAT32;
    fields->obs_bytes = obs->bytes;
    fields->dims = obs->dims;
    for (int i = 0; i < 3; i++)
        fields->shape[i] = obs->dims == 3 ? obs->shape[i] : 0;
}

/* A convolution reads both by the axes of obs. */
static gpur_status check_axes(const gpur_field_info *obs, const gpur_field_info *next_obs)
{
    GPUR_REQUIRE(obs->dims == next_obs->dims, "obs has %d axes and next_obs %d; they must be of the same shape",
                 (int)obs->dims, (int)next_obs->dims);
    for (int i = 0; i < obs->dims; i++)
        GPUR_REQUIRE(obs->shape[i] == next_obs->shape[i],
                     "axis %d of obs has %" PRId32 " and of next_obs %" PRId32 "; they must be of the same shape", i,
                     obs->shape[i], next_obs->shape[i]);
    return GPUR_OK;
}

gpur_status gpur_learn_fields_find(gpur_learn_fields *fields, const gpur_schema *schema)
{
    int32_t terminated;
    GPUR_TRY(find_obs(schema, "obs", &fields->obs));
    GPUR_TRY(find_obs(schema, "next_obs", &fields->next_obs));
    GPUR_TRY(find_float(schema, "reward", &fields->reward));
    GPUR_TRY(check_one(schema, "reward", fields->reward));
    GPUR_TRY(find_action(fields, schema));
    GPUR_TRY(find(schema, "terminated", &terminated)); /* one byte: the replay has seen to that */
    describe_obs(fields, &schema->fields[fields->obs]);
    const gpur_field_info *const after = &schema->fields[fields->next_obs];
    const int64_t next = gpur_field_elements(after);
    GPUR_REQUIRE(after->dtype == schema->fields[fields->obs].dtype, "obs is %s and next_obs %s; they must be alike",
                 gpur_dtype_name(schema->fields[fields->obs].dtype), gpur_dtype_name(after->dtype));
    GPUR_REQUIRE(next == fields->features, "obs has %" PRId64 " numbers and next_obs %" PRId64 "; they must be as many",
                 fields->features, next);
    return check_axes(&schema->fields[fields->obs], after);
}
