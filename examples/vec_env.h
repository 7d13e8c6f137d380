/* SPDX-License-Identifier: MIT */
/* N copies of an environment in lock step, in arrays as gpur_learner_act and gpur_writer_step take them. */
#ifndef EXAMPLES_VEC_ENV_H
#define EXAMPLES_VEC_ENV_H

#include "env.h"

typedef struct vec_env {
    const env_kind *kind;
    int32_t count;         /* N */
    int64_t obs_bytes;     /* of one observation */
    int64_t action_bytes;  /* of one action */
    unsigned char *states; /* (N, state_bytes) */
    unsigned char *obs;    /* (N, ...) what each copy waits with; after an end, the next episode's first observation */
    unsigned char *next_obs; /* (N, ...) where the last step led; after an end, the final observation */
    float *reward;           /* (N) of the last step */
    uint8_t *terminated;     /* (N) */
    uint8_t *truncated;      /* (N) */
    float *episode_return;   /* (N) of the episode the last step belonged to, that step included */
    int32_t opened;          /* copies whose init went well */
} vec_env;

/* Opens and resets `count` copies, each with a seed of its own drawn from `seed`. 0, or -1: no memory, nothing open. */
int vec_env_open(vec_env *envs, const env_kind *kind, int32_t count, uint64_t seed);
void vec_env_close(vec_env *envs); /* also one that failed to open */

/* Begins a new episode everywhere. */
void vec_env_reset(vec_env *envs);

/* Steps every copy, then resets those whose episode ended. `actions` is (N, ...), as the kind's action field says. */
void vec_env_step(vec_env *envs, const void *actions);

/* The observation copy `index` waits with. */
const void *vec_env_obs(const vec_env *envs, int32_t index);

/* 1 where the last step ended an episode. */
int vec_env_ended(const vec_env *envs, int32_t index);

#endif
