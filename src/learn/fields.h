/* SPDX-License-Identifier: MIT */
/* Which fields of a replay's schema a DQN learner reads. */
#ifndef GPUR_LEARN_FIELDS_H
#define GPUR_LEARN_FIELDS_H

#include "replay/schema.h"

typedef struct gpur_learn_fields {
    int32_t obs, next_obs, action, reward; /* indices in the schema */
    int64_t features;                      /* numbers in one observation */
    int32_t obs_floats;                    /* 1: obs is float32, 0: uint8 */
    int64_t obs_bytes;                     /* of one observation */
    int32_t dims, shape[3];                /* of obs; the shape is there with three axes */
    int32_t wide_action;                   /* 1: int64, 0: int32 */
} gpur_learn_fields;

/* Refuses a schema without them, or with other types. */
gpur_status gpur_learn_fields_find(gpur_learn_fields *fields, const gpur_schema *schema);

#endif
