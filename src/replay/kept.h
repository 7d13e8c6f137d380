/* SPDX-License-Identifier: MIT */
/*
 * What a writer keeps of each environment: its open episode, and of the steps that may still begin a transition the
 * fields that come from a transition's first step. Step t of an episode lies in place t % room; the place of
 * the step that comes next has its observation already. The observations of a linked replay are kept in history.h.
 */
#ifndef GPUR_REPLAY_KEPT_H
#define GPUR_REPLAY_KEPT_H

#include "device/device.h"
#include "gpureplay/writer.h"
#include "replay/step_fields.h"
#include "replay/storage.h"

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
