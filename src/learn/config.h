/* SPDX-License-Identifier: MIT */
/* The settings of a train step, and the fields of a replay that it reads. */
#pragma once

#include "base/status.h"
#include "gpureplay/dqn.h"
#include "learn/network/input.h"
#include "replay/schema.h"

enum { GPUR_MAX_ACT_BATCH = 1 << 20 }; /* observations that are acted on at a time */

/* The fields of a replay's schema that a learner reads. */

typedef struct gpur_learn_fields {
    int32_t obs, next_obs, action, reward; /* indices in the schema */
    int32_t next_mask;                     /* of next_action_mask, which other schemas need not have: -1 */
    gpur_obs_format obs_format;            /* of obs and next_obs */
    int32_t action_floats;                 /* numbers of an action that is a vector; 0: it is one integer */
    int32_t action_is_int64;               /* of an integer: 1: int64, 0: int32 */
} gpur_learn_fields;

/* The settings of a train step on a replay, whatever the algorithm. Each algorithm fills them in from its own. */
typedef struct gpur_step_config {
    int32_t wants; /* GPUR_WANTS_* of train_batch.h */
    int64_t batch_size;
    int32_t index_source; /* GPUR_SOURCE_AUTO becomes the replay's */
    gpur_schedule beta;
    int32_t takes_ids;  /* 1: there is a graph for rows of given ids */
    int32_t is_fused;   /* 1: samples are trained on by the fused step, and there is no graph for them */
    int32_t double_dqn; /* 1: the online network chooses the actions of next_obs */
    int32_t loss;       /* GPUR_LOSS_* */
    float huber_delta;
    int32_t policy_delay;  /* the actor is trained in steps of which this is a divisor; 1 without an actor */
    int64_t target_period; /* in times of policy_delay train steps */
    int32_t target_copy_first;
    float target_rate;
    gpur_optimizer_config optimizer; /* of the network that reads the batch */
    int32_t math;                    /* GPUR_MATH_*, decided */
    uint64_t seed;
    gpur_replay *demonstrations; /* of which the last rows of each batch are drawn; NULL: there are none */
    float demonstration_ratio;
    int64_t demonstration_rows;     /* of each batch; 0 without demonstrations */
    int32_t demonstration_source;   /* their index source */
    gpur_learn_fields demonstrated; /* in their schema */
} gpur_step_config;

/* Refuses settings out of range, and replaces GPUR_SOURCE_AUTO. `replay`: the checked settings of the replay. */
gpur_status gpur_step_config_check(gpur_step_config *config, const gpur_replay_config *replay);

/* Refuses a value that is no GPUR_MATH_*. */
gpur_status gpur_math_check(int32_t math);

/* Replaces GPUR_MATH_AUTO by TF32 on a GPU, else by FP32. Returns other values unchanged. */
int32_t gpur_math_decide(gpur_device *device, int32_t math);

/* Refuses a schema that lacks one of them, or has it with another type. `action_floats`: as the member. */
gpur_status gpur_learn_fields_find(gpur_learn_fields *fields, const gpur_schema *schema, int32_t action_floats);

/* Refuses masks that are not of so many actions, or that a learner of these settings does not read. A schema without
 * them is not refused. */
gpur_status gpur_learn_masks_check(const gpur_learn_fields *fields, gpur_replay *replay, const gpur_dqn_config *config);
