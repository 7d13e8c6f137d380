/* SPDX-License-Identifier: MIT */
#include "replay/row_rules.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

static float float_at(const unsigned char *at)
{
    float x;
    memcpy(&x, at, sizeof x);
    return x;
}

gpur_row_values gpur_row_values_of_rows(const gpur_schema *schema, int is_prioritized, const void *rows, int64_t pitch,
                                        const gpur_field_info *fields, const int32_t *stored)
{
    const unsigned char *const at = rows;
    const int32_t indices[3] = {is_prioritized ? schema->priority : -1, schema->terminated, schema->discount};
    const unsigned char *found[3] = {NULL, NULL, NULL};
    for (int i = 0; i < 3; i++) {
        const int32_t field = indices[i] >= 0 && stored ? stored[indices[i]] : indices[i];
        found[i] = field >= 0 ? at + fields[field].offset : NULL;
    }
    return (gpur_row_values){found[0], found[1], found[2], pitch, pitch, pitch};
}

gpur_row_values gpur_row_values_of_fields(const gpur_schema *schema, int is_prioritized, const void *const *fields)
{
    const int32_t priority = is_prioritized ? schema->priority : -1;
    return (gpur_row_values){
        .priority = priority >= 0 ? fields[priority] : NULL,
        .terminated = schema->terminated >= 0 ? fields[schema->terminated] : NULL,
        .discount = schema->discount >= 0 ? fields[schema->discount] : NULL,
        .priority_pitch = sizeof(float),
        .terminated_pitch = 1,
        .discount_pitch = sizeof(float),
    };
}

static gpur_status check_priorities(const gpur_row_values *v, int64_t count, int allows_minus_one)
{
    for (int64_t i = 0; i < count; i++) {
        const float p = float_at(v->priority + i * v->priority_pitch);
        const int is_none = isnan(p) || (allows_minus_one && p == -1.0f);
        GPUR_REQUIRE((p >= 0.0f && p < INFINITY) || is_none,
                     "the priority of row %" PRId64 " is %g; it must be 0 or more and finite, or NaN for a row that is "
                     "given none",
                     i, (double)p);
    }
    return GPUR_OK;
}

static gpur_status check_discounts(const gpur_row_values *v, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        const float discount = float_at(v->discount + i * v->discount_pitch);
        GPUR_REQUIRE(v->terminated[i * v->terminated_pitch] == 0 || discount == 0.0f,
                     "row %" PRId64 " has terminated 1 and discount %g; the discount of a terminal row must be 0, "
                     "since learners multiply the value of next_obs by it",
                     i, (double)discount);
    }
    return GPUR_OK;
}

gpur_status gpur_row_values_check(const gpur_row_values *v, int64_t count, int allows_minus_one)
{
    if (v->priority)
        GPUR_TRY(check_priorities(v, count, allows_minus_one));
    return v->terminated && v->discount ? check_discounts(v, count) : GPUR_OK;
}
