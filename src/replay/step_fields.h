/* SPDX-License-Identifier: MIT */
/* What a step makes of a schema: the fields that it fills in itself, and those that it keeps from a transition's first
 * step. */
#ifndef GPUR_REPLAY_STEP_FIELDS_H
#define GPUR_REPLAY_STEP_FIELDS_H

#include "replay/schema.h"

/* Index in the schema; -1 where the schema has none. */
typedef struct gpur_step_fields {
    int32_t obs, action, reward, next_obs, terminated, truncated, discount, previous;
    int32_t extra; /* the first that no step fills in, or -1 */
} gpur_step_fields;

gpur_step_fields gpur_step_fields_find(const gpur_schema *schema);

/* GPUR_OK when the schema has what gpur_writer_step_with needs, of the types that it needs. */
gpur_status gpur_step_fields_check(const gpur_step_fields *fields, const gpur_schema *schema);

/* 1 for a field that comes with the extras of a step. */
int gpur_step_fields_is_extra(const gpur_step_fields *fields, int32_t field);

#endif
