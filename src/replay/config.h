/* SPDX-License-Identifier: MIT */
/* Checks a replay's config and resolves its defaults. */
#pragma once

#include "replay/schema.h"

enum { GPUR_MIN_STAGING_BLOCKS = 2, GPUR_MAX_STAGING_BLOCKS = 64 };

/* Reads the caller's config, whatever version of the struct it has. `checked` gets it with every default resolved and
 * `fields` NULL, and `schema` gets the fields. */
gpur_status gpur_replay_config_check(const gpur_replay_config *given, gpur_replay_config *checked, gpur_schema *schema);

/* Index of the field that reward_clip applies to, "reward" of one float32; -1 if rewards are not clipped. */
int32_t gpur_clipped_field(const gpur_replay_config *checked, const gpur_schema *schema);

/* Refuses a value that is not 0 to `last`. `choices` names them in the message. */
gpur_status gpur_choice_check(int32_t value, int32_t last, const char *name, const char *choices);

/* Refuses a value that is not `first` to `last`. */
gpur_status gpur_range_check(int64_t value, int64_t first, int64_t last, const char *name);

/* Refuses a value that is not a public index source. `name` names the setting in the message. */
gpur_status gpur_index_source_check(int32_t index_source, const char *name);

/* Limits of alpha, beta and priority_offset. Beyond them sampling degenerates: a larger offset makes all priorities
 * practically equal, a larger exponent leaves practically one row. */
#define GPUR_MAX_EXPONENT 10.0f
#define GPUR_MAX_PRIORITY_OFFSET 4096.0f

/* Refuses an exponent (alpha or beta) that is not 0 to GPUR_MAX_EXPONENT. */
gpur_status gpur_exponent_check(float value, const char *name);

/* Refuses values that are not 0 to `limit`, a negative begin or steps, and reserved words other than 0. */
gpur_status gpur_schedule_check(const gpur_schedule *schedule, float limit, const char *name);
