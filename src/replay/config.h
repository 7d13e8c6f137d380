/* SPDX-License-Identifier: MIT */
/* A replay's settings, checked and complete. */
#ifndef GPUR_REPLAY_CONFIG_H
#define GPUR_REPLAY_CONFIG_H

#include "replay/schema.h"

enum { GPUR_MIN_STAGING_BLOCKS = 2, GPUR_MAX_STAGING_BLOCKS = 64 };

/* Reads the caller's config, of whatever version; `checked` has every default resolved and no pointer in it. */
gpur_status gpur_replay_config_check(const gpur_replay_config *given, gpur_replay_config *checked, gpur_schema *schema);

/* The field that reward_clip is for, a reward of one float32; -1: rewards are not to be clipped. */
int32_t gpur_clipped_field(const gpur_replay_config *checked, const gpur_schema *schema);

/* Refuses what is none of the public sources of draws. */
gpur_status gpur_index_source_check(int32_t index_source, const char *name);

/* The largest exponents and the largest priority_offset: beyond them all priorities are drawn alike, or but one. */
#define GPUR_MAX_EXPONENT 10.0f
#define GPUR_MAX_PRIORITY_OFFSET 4096.0f

/* Refuses an exponent of priorities or of weights: alpha, beta. */
gpur_status gpur_exponent_check(float value, const char *name);

/* Refuses values outside of 0 to `most`, and a begin or steps below 0. */
gpur_status gpur_schedule_check(const gpur_schedule *schedule, float most, const char *name);

#endif
