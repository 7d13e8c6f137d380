/* SPDX-License-Identifier: MIT */
/* Numbers that come from outside must be finite: the one rule for observations, rewards, actions and all other fields
 * of floats, wherever they come in (gpur_replay_config.check_finite). */
#pragma once

#include "replay/schema.h"

/* 1: all numbers in so many bytes are finite. Numbers that are no floats always are. `values` may have any address. */
int gpur_are_finite(int32_t dtype, const void *values, int64_t bytes);

/* The index of the first number that is NaN or infinite; -1: all are finite. */
int64_t gpur_find_not_finite(int32_t dtype, const void *values, int64_t count);

/* "NaN" or "infinite": what this number is. */
const char *gpur_not_finite_name(int32_t dtype, const void *values, int64_t index);

/* Values of a field: `count` of `bytes` bytes each, `pitch` bytes apart. Errors call the field `name`, and one of its
 * values `item`: a row, a frame, an environment. */
typedef struct gpur_field_values {
    const void *at;
    int64_t count, pitch, bytes;
    int32_t dtype;
    const char *name, *item;
    int32_t is_part; /* 1: of more values, and the first one is number `first` of these; errors have no count */
    int64_t first;
} gpur_field_values;

/* Refuses values of which a number is not finite. `refusal`: GPUR_INVALID_ARGUMENT, or GPUR_FILE_ERROR for bytes from
 * elsewhere. */
gpur_status gpur_check_finite(const gpur_field_values *values, gpur_status refusal);

/* The same for all fields of rows, which are `pitch` bytes apart. */
gpur_status gpur_check_rows_finite(const gpur_schema *schema, const void *rows, int64_t count, int64_t pitch,
                                   gpur_status refusal);

/* Refuses numbers of float32 that are not -1 to 1, which a learner of deterministic policy gradients trains on. */
gpur_status gpur_check_unit_actions(const gpur_field_values *values, gpur_status refusal);

/* Refuses integers that are not 0 to `actions` - 1, which a learner of so many actions trains on. */
gpur_status gpur_check_discrete_actions(const gpur_field_values *values, int32_t actions, gpur_status refusal);

/* Raises *largest to the largest of the integers. Refuses one below 0. */
gpur_status gpur_find_largest_action(const gpur_field_values *values, int64_t *largest);

/* Refuses a reward that is not finite. */
gpur_status gpur_check_reward_finite(float reward);
