/* SPDX-License-Identifier: MIT */
/* What a writer needs to turn steps into transitions: the schema's fields that a step fills in, n-step returns, and the
 * state of each environment between steps. */
#pragma once

#include "replay/schema.h"
#include "device/device.h"
#include "gpureplay/writer.h"
#include "replay/storage/layout.h"

#include <stdint.h>

/* Indices in the schema; -1 if the schema has no such field. */
typedef struct gpur_step_fields {
    int32_t obs, action, reward, next_obs, terminated, truncated, discount, previous;
    int32_t extra; /* the first field that a step does not fill in, or -1 */
} gpur_step_fields;

gpur_step_fields gpur_step_fields_find(const gpur_schema *schema);

/* Refuses a schema that lacks a field that gpur_writer_step_ex needs, or has it with another type. */
gpur_status gpur_step_fields_check(const gpur_step_fields *fields, const gpur_schema *schema);

/* 1 if the field is one of the extras of a step. */
int gpur_step_fields_is_extra(const gpur_step_fields *fields, int32_t field);

/*
 * The state of each environment: its open episode and, for the steps that may still begin a transition, the fields that
 * a transition takes from its steps. Step t of an episode is entry t % room; the entry of the next step already
 * has its observation. With GPUR_LAYOUT_FRAMES the observations are in frame_history.h instead.
 */

typedef struct gpur_episode {
    int64_t steps;    /* since the episode began */
    int64_t previous; /* `previous` of the next transition that is completed: kernels/lib/previous.h */
    int32_t pending;  /* steps whose transitions are not complete yet; less than n_step between calls */
    int32_t state;    /* GPUR_EPISODE_* */
} gpur_episode;

/* 1 if the environment has had no episode yet: its state is all zeros, except that gpur_writer_set_ended may have set
 * `state`. An episode without a step has a negative `previous`. */
static inline int gpur_episode_is_unused(const gpur_episode *episode)
{
    return episode->steps == 0 && episode->previous == 0;
}

/* A field that a transition takes from its first step, or its last: its offsets in the entry of a step and in a ring
 * row. */
typedef struct gpur_carried_field {
    int32_t field;   /* index in the schema */
    int32_t is_last; /* 1: next_action_mask, which goes with next_obs */
    int64_t offset, row_offset, bytes;
} gpur_carried_field;

typedef struct gpur_env_state {
    gpur_device *device; /* not retained */
    int32_t num_envs, n_step;
    int64_t room;                               /* entries, a power of two above n_step: indexing needs no division */
    gpur_carried_field fields[GPUR_MAX_FIELDS]; /* (count) */
    int32_t count;
    int64_t obs_bytes;      /* obs is then the first of the fields; 0: obs is not stored here */
    int64_t step_bytes;     /* size of one entry */
    gpur_episode *episodes; /* (num_envs) */
    float *rewards;         /* (num_envs, room) already clipped */
    unsigned char *values;  /* (num_envs, room, step_bytes) */
    size_t bytes;           /* size of the allocation, which begins with `episodes` */
} gpur_env_state;

/* Computes sizes and offsets without allocating memory. `env_state` must be zeroed. */
void gpur_env_state_plan(gpur_env_state *env_state, int32_t num_envs, int32_t n_step, const gpur_step_fields *fields,
                         const gpur_schema *schema, const gpur_ring_layout *layout);

gpur_status gpur_env_state_build(gpur_env_state *env_state, gpur_device *device, int32_t num_envs, int32_t n_step,
                                 const gpur_step_fields *fields, const gpur_schema *schema,
                                 const gpur_ring_layout *layout);
void gpur_env_state_destroy(gpur_env_state *env_state); /* also after a failed build */

/* The entry of a step of an environment. */
static inline unsigned char *gpur_env_state_step(const gpur_env_state *env_state, int64_t env, int64_t step)
{
    return env_state->values + (env * env_state->room + (step & (env_state->room - 1))) * env_state->step_bytes;
}

/* The stored observation from which an environment's next step starts. */
static inline unsigned char *gpur_env_state_obs(const gpur_env_state *env_state, int64_t env)
{
    return gpur_env_state_step(env_state, env, env_state->episodes[env].steps);
}

/* Begins an episode of an environment. Its first transition links to the last one of the episode before. */
void gpur_env_state_begin(gpur_env_state *env_state, int64_t env);
