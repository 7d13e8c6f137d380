/* SPDX-License-Identifier: MIT */
/* What a step makes of a schema: the fields that it fills in itself, and those that it keeps from a transition's first
 * step. */
#ifndef GPUR_REPLAY_WRITER_ENV_STATE_H
#define GPUR_REPLAY_WRITER_ENV_STATE_H

#include "replay/schema.h"
#include "device/device.h"
#include "gpureplay/writer.h"
#include "replay/storage/layout.h"

#include <stdint.h>

/* Index in the schema; -1 where the schema has none. */
typedef struct gpur_step_fields {
    int32_t obs, action, reward, next_obs, terminated, truncated, discount, previous;
    int32_t extra; /* the first that no step fills in, or -1 */
} gpur_step_fields;

gpur_step_fields gpur_step_fields_find(const gpur_schema *schema);

/* GPUR_OK when the schema has what gpur_writer_step_with needs, of the types that it needs. */
gpur_status gpur_step_fields_check(const gpur_step_fields *fields, const gpur_schema *schema);

/* 1 for a field that comes with the extras of a step. */
int gpur_step_fields_is_extra(const gpur_step_fields *fields, int32_t field);

/*
 * n-step returns of one environment [Sutton & Barto 2018, eq. 7.1; the tails of an ended episode as in Horgan et al.
 * 2018, section 3]: which transitions a step completes, and what their rewards come to. Numbers in, numbers out.
 */

/* Of the steps that no transition begins with yet, the last one included: how many begin one now, oldest first. Each
 * reaches from its step to the last one. */
static inline int32_t gpur_fold_due(int32_t pending, int32_t n_step, int ends)
{
    if (ends)
        return pending;
    return pending >= n_step ? pending - n_step + 1 : 0;
}

typedef struct gpur_fold {
    float reward;   /* r(0) + gamma r(1) + ... + gamma^(m-1) r(m-1) */
    float discount; /* gamma^m, before anybody asks whether the task ended */
} gpur_fold;

/* Folds `steps` rewards, which lie in a ring from place `first` on; `room` is a power of two. One reward stays as it
 * is, bit by bit. */
gpur_fold gpur_fold_rewards(const float *rewards, int32_t room, int64_t first, int32_t steps, float gamma);

/*
 * What a writer keeps of each environment: its open episode, and of the steps that may still begin a transition the
 * fields that come from a transition's first step. Step t of an episode lies in place t % room; the place of
 * the step that comes next has its observation already. The observations of a linked replay are kept in history.h.
 */

typedef struct gpur_episode {
    int64_t steps;    /* since it began */
    int64_t previous; /* id of the transition that it completed last, or -1 */
    int32_t pending;  /* steps that begin no transition yet; less than n_step between calls */
    int32_t state;    /* GPUR_EPISODE_* */
} gpur_episode;

/* A field that is kept: from where, among the values of a step, to where in a row. */
typedef struct gpur_kept_field {
    int32_t field; /* in the schema */
    int64_t offset, row_offset, bytes;
} gpur_kept_field;

typedef struct gpur_kept {
    gpur_device *device; /* not held */
    int32_t num_envs, n_step;
    int64_t room;                            /* a power of two above n_step: no division on the way of a step */
    gpur_kept_field fields[GPUR_MAX_FIELDS]; /* (count) */
    int32_t count;
    int64_t obs_bytes;      /* obs is then the first of them; 0: it is not kept here */
    int64_t step_bytes;     /* of one step's values */
    gpur_episode *episodes; /* (num_envs) */
    float *rewards;         /* (num_envs, room) clipped */
    unsigned char *values;  /* (num_envs, room, step_bytes) */
    size_t bytes;           /* allocated behind `episodes`, and all of it */
} gpur_kept;

/* What would be kept, in a zeroed one, without memory for it. */
void gpur_kept_plan(gpur_kept *kept, int32_t num_envs, int32_t n_step, const gpur_step_fields *fields,
                    const gpur_schema *schema, const gpur_storage *storage);

gpur_status gpur_kept_build(gpur_kept *kept, gpur_device *device, int32_t num_envs, int32_t n_step,
                            const gpur_step_fields *fields, const gpur_schema *schema, const gpur_storage *storage);
void gpur_kept_destroy(gpur_kept *kept); /* tolerates half-built */

/* The smallest power of two above x. */
int64_t gpur_power_above(int64_t x);

/* The values of a step of an environment. */
static inline unsigned char *gpur_kept_step(const gpur_kept *kept, int64_t env, int64_t step)
{
    return kept->values + (env * kept->room + (step & (kept->room - 1))) * kept->step_bytes;
}

/* The observation that an environment's next step begins with. */
static inline unsigned char *gpur_kept_obs(const gpur_kept *kept, int64_t env)
{
    return gpur_kept_step(kept, env, kept->episodes[env].steps);
}

/* Begins an episode. */
void gpur_kept_begin(gpur_kept *kept, int64_t env);

#endif
