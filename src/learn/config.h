/* SPDX-License-Identifier: MIT */
/* Checks a learner's config, and finds the fields that a learner reads. */
#pragma once

#include "base/status.h"
#include "gpureplay/learner.h"
#include "learn/network/input.h"
#include "replay/schema.h"

enum { GPUR_MAX_ACT_BATCH = 1 << 20 }; /* observations that are acted on at a time */

/* Refuses settings out of range, except those of the network (see network/network.h). Replaces GPUR_SOURCE_AUTO by the
 * replay's index_source. `replay`: the checked settings of the replay. */
gpur_status gpur_dqn_config_check(gpur_dqn_config *config, const gpur_replay_config *replay);

/* Refuses a value that is no GPUR_MATH_*. */
gpur_status gpur_math_check(int32_t math);

/* What GPUR_MATH_AUTO is on this device: TF32 on a GPU, else FP32. Other values are what they are. */
int32_t gpur_math_decide(gpur_device *device, int32_t math);

/* The fields of a replay's schema that a learner reads. */

typedef struct gpur_learn_fields {
    int32_t obs, next_obs, action, reward; /* indices in the schema */
    gpur_obs_format obs_format;            /* of obs and next_obs */
    int32_t action_floats;                 /* numbers of an action that is a vector; 0: it is one integer */
    int32_t action_is_int64;               /* of an integer: 1: int64, 0: int32 */
} gpur_learn_fields;

/* Refuses a schema that lacks one of them, or has it with another type. `action_floats`: as the member. */
gpur_status gpur_learn_fields_find(gpur_learn_fields *fields, const gpur_schema *schema, int32_t action_floats);
