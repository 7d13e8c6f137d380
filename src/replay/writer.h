/* SPDX-License-Identifier: MIT */
#ifndef GPUR_REPLAY_WRITER_H
#define GPUR_REPLAY_WRITER_H

#include "gpureplay/writer.h"
#include "replay/replay.h"

/* Fields that a step fills in, by index in the schema; -1 where the schema has none. */
typedef struct gpur_step_fields {
    int32_t obs, action, reward, next_obs, terminated, truncated;
} gpur_step_fields;

struct gpur_writer {
    gpur_replay *replay; /* must outlive the writer */
    gpur_writer *next;   /* of the replay's writers */
    int32_t num_envs;
    gpur_step_fields fields;
    unsigned char *obs;     /* (num_envs, obs) the observation each environment's next transition starts from */
    unsigned char *is_open; /* (num_envs) 1 between reset and the end of the episode */
    int64_t obs_bytes;      /* of one; 0 when the schema has no obs */
    size_t bytes;           /* allocated behind `obs` and `is_open` together */
};

/* GPUR_OK when the schema has all that gpur_writer_step fills in, and nothing more. */
gpur_status gpur_writer_check_steps(const gpur_writer *writer);

#endif
