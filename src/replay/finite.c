/* SPDX-License-Identifier: MIT */
#include "replay/finite.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* A float is NaN or infinite if all bits of its exponent are 1: then the sum below has its highest bit. Compilers make
 * vector instructions of these loops. */
static int are_finite_float32(const unsigned char *values, int64_t count)
{
    uint32_t sums = 0;
    for (int64_t i = 0; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, values + i * (int64_t)sizeof bits, sizeof bits);
        sums |= (bits & 0x7fffffffu) + 0x00800000u;
    }
    return sums < 0x80000000u;
}

static int are_finite_float16(const unsigned char *values, int64_t count)
{
    uint32_t sums = 0;
    for (int64_t i = 0; i < count; i++) {
        uint16_t bits;
        memcpy(&bits, values + i * (int64_t)sizeof bits, sizeof bits);
        sums |= (bits & 0x7fffu) + 0x0400u;
    }
    return sums < 0x8000u;
}

int gpur_are_finite(int32_t dtype, const void *values, int64_t bytes)
{
    if (dtype == GPUR_FLOAT32)
        return are_finite_float32(values, bytes / (int64_t)sizeof(uint32_t));
    return dtype != GPUR_FLOAT16 || are_finite_float16(values, bytes / (int64_t)sizeof(uint16_t));
}

int64_t gpur_find_not_finite(int32_t dtype, const void *values, int64_t count)
{
    const int64_t bytes = gpur_dtype_bytes(dtype);
    int64_t i = 0;
    if (gpur_are_finite(dtype, values, count * bytes))
        return -1;
    while (gpur_are_finite(dtype, (const unsigned char *)values + i * bytes, bytes))
        i++;
    return i;
}

const char *gpur_not_finite_name(int32_t dtype, const void *values, int64_t index)
{
    uint32_t wide = 0;
    uint16_t narrow = 0;
    const unsigned char *const at = (const unsigned char *)values + index * gpur_dtype_bytes(dtype);
    if (dtype == GPUR_FLOAT32)
        memcpy(&wide, at, sizeof wide);
    else
        memcpy(&narrow, at, sizeof narrow);
    return (wide & 0x007fffffu) || (narrow & 0x03ffu) ? "NaN" : "infinite";
}

static gpur_status refuse(const gpur_field_values *v, int64_t item, gpur_status refusal)
{
    const unsigned char *const value = (const unsigned char *)v->at + item * v->pitch;
    const int64_t index = gpur_find_not_finite(v->dtype, value, v->bytes / gpur_dtype_bytes(v->dtype));
    return gpur_fail(refusal, "\"%s\" is %s in %s %" PRId64 " of %" PRId64 "; its numbers must be finite", v->name,
                     gpur_not_finite_name(v->dtype, value, index), v->item, item, v->count);
}

gpur_status gpur_check_finite(const gpur_field_values *v, gpur_status refusal)
{
    const unsigned char *const at = v->at;
    if (v->pitch == v->bytes && gpur_are_finite(v->dtype, at, v->count * v->bytes)) /* one pass over all of them */
        return GPUR_OK;
    for (int64_t i = 0; i < v->count; i++)
        if (!gpur_are_finite(v->dtype, at + i * v->pitch, v->bytes))
            return refuse(v, i, refusal);
    return GPUR_OK;
}

gpur_status gpur_check_rows_finite(const gpur_schema *schema, const void *rows, int64_t count, int64_t pitch,
                                   gpur_status refusal)
{
    for (int32_t f = 0; f < schema->count && schema->reals > 0; f++) {
        const gpur_field_info *const field = &schema->fields[f];
        const unsigned char *const at = (const unsigned char *)rows + field->offset;
        const gpur_field_values values = {at, count, pitch, field->bytes, field->dtype, field->name, "row"};
        if (schema->is_real[f])
            GPUR_TRY(gpur_check_finite(&values, refusal));
    }
    return GPUR_OK;
}

static gpur_status refuse_action(const gpur_field_values *v, int64_t item, float value, gpur_status refusal)
{
    char of[32] = "";
    if (!v->is_part)
        snprintf(of, sizeof of, " of %" PRId64, v->count);
    return gpur_fail(refusal,
                     "\"%s\" is %g in %s %" PRId64 "%s; it must be -1 to 1, as the replay's learner of deterministic "
                     "policy gradients has actions: scale them from their bounds",
                     v->name, (double)value, v->item, v->first + item, of);
}

gpur_status gpur_check_unit_actions(const gpur_field_values *v, gpur_status refusal)
{
    for (int64_t item = 0; item < v->count && v->dtype == GPUR_FLOAT32; item++)
        for (int64_t at = 0; at < v->bytes; at += (int64_t)sizeof(float)) {
            float value;
            memcpy(&value, (const unsigned char *)v->at + item * v->pitch + at, sizeof value);
            if (value < -1.0f || value > 1.0f)
                return refuse_action(v, item, value, refusal);
        }
    return GPUR_OK;
}

static int64_t integer_at(const gpur_field_values *v, int64_t item)
{
    const unsigned char *const at = (const unsigned char *)v->at + item * v->pitch;
    int32_t narrow;
    int64_t wide;
    memcpy(&narrow, at, sizeof narrow);
    if (v->dtype == GPUR_INT32)
        return narrow;
    memcpy(&wide, at, sizeof wide);
    return wide;
}

gpur_status gpur_check_discrete_actions(const gpur_field_values *v, int32_t actions, gpur_status refusal)
{
    for (int64_t item = 0; item < v->count; item++) {
        const int64_t action = integer_at(v, item);
        if (action < 0 || action >= actions)
            return gpur_fail(refusal,
                             "\"%s\" is %" PRId64 " in %s %" PRId64 " of %" PRId64 "; it must be 0 to %d, as the "
                             "replay's learner has num_actions %d",
                             v->name, action, v->item, item, v->count, (int)actions - 1, (int)actions);
    }
    return GPUR_OK;
}

gpur_status gpur_find_largest_action(const gpur_field_values *v, int64_t *largest)
{
    for (int64_t item = 0; item < v->count; item++) {
        const int64_t action = integer_at(v, item);
        GPUR_REQUIRE(action >= 0, "\"%s\" is %" PRId64 " in %s %" PRId64 "; it must be 0 or more", v->name, action,
                     v->item, v->first + item);
        *largest = action > *largest ? action : *largest;
    }
    return GPUR_OK;
}

gpur_status gpur_check_reward_finite(float reward)
{
    GPUR_REQUIRE(isfinite(reward), "the reward is %g; it must be a finite number", (double)reward);
    return GPUR_OK;
}
