/* SPDX-License-Identifier: MIT */
/*
 * Rollouts: up to t_max steps of an agent, with the return of each [Babaeizadeh et al. 2017, section 3.2]. A rollout is
 * filled in segments. A segment ends with an episode or with the rollout:
 *
 *     R = V of the observation after the last step, or 0 if the episode has terminated there
 *     backwards over the segment's steps:  R = r + gamma R
 */
#pragma once

#include "base/mutex.h"

#include <stdint.h>

typedef struct gpur_rollout {
    int32_t count;      /* steps */
    int32_t first;      /* of the open segment */
    unsigned char *obs; /* (t_max, obs_bytes) before each step */
    int32_t *actions;   /* (t_max) */
    float *returns;     /* (t_max) of closed segments; of the open one the clipped rewards */
    int64_t *versions;  /* (t_max) of the weights that chose the action */
    struct gpur_rollout *next;
} gpur_rollout;

/* Rollouts that nobody uses, which are used again. Any thread. */
typedef struct gpur_rollout_pool {
    gpur_mutex lock;
    int64_t obs_bytes;
    int32_t t_max;
    gpur_rollout *free;
} gpur_rollout_pool;

gpur_status gpur_rollout_pool_open(gpur_rollout_pool *pool, int64_t obs_bytes, int32_t t_max);
void gpur_rollout_pool_close(gpur_rollout_pool *pool); /* when all have been given back; accepts a zeroed one */

/* An empty rollout. */
gpur_status gpur_rollout_take(gpur_rollout_pool *pool, gpur_rollout **rollout);
void gpur_rollout_give_back(gpur_rollout_pool *pool, gpur_rollout *rollout); /* NULL does nothing */

/* Adds a step, whose reward is set later. There must be room. */
void gpur_rollout_add(gpur_rollout *rollout, const void *obs, int64_t obs_bytes, int32_t action, int64_t version);

/* Sets the reward of the last step. clip 0: it is not clipped. */
void gpur_rollout_set_reward(gpur_rollout *rollout, float reward, float clip);

/* Computes the returns of the open segment, and closes it. */
void gpur_rollout_close(gpur_rollout *rollout, float discount, float bootstrap);
