/* SPDX-License-Identifier: MIT */
#ifndef GPUR_LEARN_CONFIG_H
#define GPUR_LEARN_CONFIG_H

#include "base/status.h"
#include "gpureplay/learner.h"
#include "replay/schema.h"

enum { GPUR_MAX_ACT_BATCH = 1 << 20 };

/* Refuses a learner's config out of range, but for its network (network.h), and sets index_source where it is to follow
 * the replay. `replay` are its replay's settings, as checked. */
gpur_status gpur_learner_config_check(gpur_learner_config *config, const gpur_replay_config *replay);

/* Which fields of a replay's schema a DQN learner reads. */

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
