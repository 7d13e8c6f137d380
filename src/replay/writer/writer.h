/* SPDX-License-Identifier: MIT */
#ifndef GPUR_REPLAY_WRITER_WRITER_H
#define GPUR_REPLAY_WRITER_WRITER_H

#include "gpureplay/writer.h"
#include "kernels/cpu/copy_value.h"
#include "replay/writer/frame_history.h"
#include "replay/writer/env_state.h"
#include "replay/replay.h"

/* Bytes from the start of a row of the ring to what a step fills in; -1: there is no such field. */
typedef struct gpur_row_places {
    int64_t reward, next_obs, terminated, truncated, discount, previous, links;
} gpur_row_places;

struct gpur_writer {
    gpur_replay *replay; /* must outlive the writer */
    gpur_writer *next;   /* of the replay's writers */
    gpur_writer_config config;
    gpur_step_fields fields;
    int32_t bools;    /* fields of bools beside terminated and truncated */
    int32_t can_step; /* the schema has been found to have what steps need */
    gpur_row_places places;
    gpur_kept kept;
    gpur_history history; /* of a linked replay */
};

/* Observation of an environment in an array as it is given. */
static inline const unsigned char *gpur_writer_obs(const gpur_writer *writer, const void *array, int64_t env)
{
    const int64_t linked = writer->history.input_bytes;
    return (const unsigned char *)array + env * (linked > 0 ? linked : writer->kept.obs_bytes);
}

/* The observation after the environment's last step. */
static inline void gpur_writer_observe(gpur_writer *writer, int64_t env, const unsigned char *obs)
{
    if (writer->history.newest)
        gpur_history_add(&writer->history, env, obs);
    else
        gpur_move_value(gpur_kept_obs(&writer->kept, env), obs, writer->kept.obs_bytes);
}

/* Refuses bools that are not 0 or 1 in the observation of an environment in an array as it is given. */
gpur_status gpur_writer_check_obs(const gpur_writer *writer, const void *array, int64_t env, const char *name);

/* Begins an episode of an environment with this observation. */
void gpur_writer_begin(gpur_writer *writer, int64_t env, const unsigned char *obs);

/* With the lock held: every episode from `first` to before `last` that is open ends as if truncated where it is. Its
 * pending steps become transitions; waits for blocks in use if `waits`. */
gpur_status gpur_writer_cut(gpur_writer *writer, int64_t first, int64_t last, int waits);

/* The rows that this would make. */
int64_t gpur_writer_pending(const gpur_writer *writer, int64_t first, int64_t last);

#endif
