/* SPDX-License-Identifier: MIT */
/* The writer handle, and what the source files of writers share. */
#pragma once

#include "gpureplay/writer.h"
#include "kernels/cpu/copy_value.h"
#include "replay/writer/frame_history.h"
#include "replay/writer/env_state.h"
#include "replay/finite.h"
#include "replay/replay.h"
#include "replay/view.h"

/* Byte offsets in a ring row of the fields that a step fills in; -1: rows have no such field. */
typedef struct gpur_row_offsets {
    int64_t reward, next_obs, terminated, truncated, discount, previous, links, priority;
} gpur_row_offsets;

gpur_row_offsets gpur_row_offsets_find(const gpur_ring_layout *layout, const gpur_step_fields *fields);

/* Who made a block, and which of its blocks it was. */
typedef struct gpur_block_source {
    int64_t actor, incarnation, sequence;
} gpur_block_source;

struct gpur_writer {
    gpur_replay *replay; /* must outlive the writer */
    gpur_writer *next;   /* in the replay's list of writers */
    gpur_writer_config config;
    gpur_step_fields fields;
    int32_t bools; /* number of GPUR_BOOL fields other than terminated and truncated */
    int32_t
        reals[GPUR_MAX_FIELDS]; /* (real_count) fields of a step beside obs, next_obs and reward that must be finite */
    int32_t real_count;
    int32_t can_step; /* 1: the schema has been checked to have what steps need */
    gpur_row_offsets offsets;
    gpur_env_state env_state;
    gpur_frame_history frame_history; /* with GPUR_LAYOUT_FRAMES */
    int32_t marked;                   /* sequence_length: the field `priority`; else -1 */
    int64_t append_link;              /* link_appends: `previous` of the next appended row */
    int64_t appended;                 /* link_appends: rows of its episode before that one */
    gpur_block_source last_block;     /* link_appends: the block appended last; actor -1: none */
};

/* The observation of environment `env` in a caller's array. */
static inline const unsigned char *gpur_writer_obs(const gpur_writer *writer, const void *array, int64_t env)
{
    const int64_t frame_bytes = writer->frame_history.input_bytes;
    return (const unsigned char *)array + env * (frame_bytes > 0 ? frame_bytes : writer->env_state.obs_bytes);
}

/* Stores the observation after the environment's last step. */
static inline void gpur_writer_push_obs(gpur_writer *writer, int64_t env, const unsigned char *obs)
{
    if (writer->frame_history.last)
        gpur_frame_history_add(&writer->frame_history, env, obs);
    else
        gpur_copy_value(gpur_env_state_obs(&writer->env_state, env), obs, writer->env_state.obs_bytes);
}

/* If observations are GPUR_BOOL: refuses bytes other than 0 and 1 in environment `env`'s observation in a caller's
 * array, which `name` names. */
gpur_status gpur_writer_check_obs(const gpur_writer *writer, const void *array, int64_t env, const char *name);

/* If numbers must be finite: refuses others in the observations of the first `envs` environments of a caller's
 * array. */
gpur_status gpur_writer_check_finite_obs(const gpur_writer *writer, const void *array, int64_t envs, const char *name);

/* Refuses actions that a learner of the replay cannot train on: `count` of them in host memory, `pitch` bytes apart. */
static inline gpur_status gpur_writer_check_actions(const gpur_writer *writer, const void *actions, int64_t count,
                                                    int64_t pitch, const char *item, gpur_status refusal)
{
    const int32_t limit = atomic_load_explicit(&writer->replay->actions, memory_order_relaxed);
    if (limit == 0 || count == 0)
        return GPUR_OK;
    const gpur_field_info *const field = &writer->replay->schema.fields[writer->fields.action];
    const gpur_field_values values = {actions, count, pitch, field->bytes, field->dtype, field->name, item};
    return limit == GPUR_UNIT_ACTIONS ? gpur_check_unit_actions(&values, refusal)
                                      : gpur_check_discrete_actions(&values, limit, refusal);
}

/* Begins an episode of an environment with its first observation. */
void gpur_writer_begin_episode(gpur_writer *writer, int64_t env, const unsigned char *obs);

/* link_appends: fills in `previous` of rows as they lie in the ring, of which the first has id `first_id`; with
 * sequence_length also `priority`. */
void gpur_writer_link_rows(gpur_writer *writer, unsigned char *rows, int64_t count, int64_t first_id);

/* Gives a new writer the oldest waiting state of a loaded file (checkpoint/writers.c), if num_envs, autoreset and
 * observations are the same. */
void gpur_writer_take_pending_state(gpur_writer *writer);
