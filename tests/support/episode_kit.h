/* SPDX-License-Identifier: MIT */
/* Small worlds for tests of episodes: an observation is one float, which tells the rows apart. */
#ifndef GPUR_SUPPORT_EPISODE_KIT_H
#define GPUR_SUPPORT_EPISODE_KIT_H

#include "support/replay_kit.h"

enum { EPISODE_FIELDS = 9, EPISODE_MOST = 32 };

/* obs, action, reward, next_obs, terminated, truncated, discount, previous, and "extra", an int32. */
extern const gpur_field episode_fields[EPISODE_FIELDS];

/* The first `field_count` of the fields; flushed by hand, so that nothing is published unasked. */
gpur_replay_config episode_config(int32_t field_count, int32_t n_step, float gamma);

typedef struct episode_row {
    float obs, reward, next_obs, discount;
    int32_t action, extra;
    uint8_t terminated, truncated;
    int64_t previous;
} episode_row;

/* The rows of ids first ... first + count - 1, at most EPISODE_MOST; fields that the schema has not stay as they are.
 */
gpur_status episode_rows(gpur_replay *replay, int64_t first, int64_t count, episode_row *rows);

int64_t episode_appended(gpur_replay *replay);

#endif
