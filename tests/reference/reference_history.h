/* SPDX-License-Identifier: MIT */
/*
 * What writers make of episodes, by definition: lists of all that happened, and of the transitions that follow from it.
 * No rings, no links, nothing forgotten. A frame is known by its tag; a stack is the last `stack` frames of an episode
 * up to a step, where missing ones are no frame or the episode's first.
 *
 * A transition from step s of an episode of T steps reaches to e = min(s + n_step, T) [Sutton & Barto 2018, eq. 7.1;
 * tails: Horgan et al. 2018]: reward = sum over i in [s, e) of gamma^(i - s) r(i), discount = gamma^(e - s), or 0 where
 * the task ended at e. It is there as soon as its last step is.
 */
#pragma once

#include <stdint.h>

enum { HISTORY_MAX_STACK = 8, HISTORY_NO_FRAME = -1 };

typedef struct history_row {
    int64_t env, previous, extra;
    int64_t obs[HISTORY_MAX_STACK], next_obs[HISTORY_MAX_STACK]; /* (stack) tags, oldest first */
    int32_t action;
    uint8_t terminated, truncated;
    double reward, discount;
} history_row;

/* Every transition ever, in the order of their ids; of any number of writers. */
typedef struct history_rows {
    history_row *rows; /* (count) */
    int64_t count, room;
} history_rows;

typedef struct history_step {
    int32_t action;
    float reward;
    int64_t extra;
} history_step;

/* The open episode of one environment; steps + 1 frames. */
typedef struct history_env {
    int64_t *frames;
    history_step *steps;
    int64_t count, room, made;
    int64_t last; /* id of the environment's last transition, or -1 */
    int64_t link; /* `previous` of its next transition */
    int is_open;
} history_env;

typedef struct history {
    history_rows *all; /* shared */
    history_env *envs;
    int32_t num_envs, n_step, stack, repeats; /* repeats: the first frame in place of missing ones */
    float gamma, clip;
} history;

void history_begin(history *h, history_rows *all, int32_t num_envs);
void history_end(history *h); /* frees the memory; makes no transitions */

/* An open episode ends as if truncated. */
void history_reset(history *h, int64_t env, int64_t frame);
void history_take(history *h, int64_t env, history_step step, int64_t frame, int terminated, int truncated);

/* What destroying a writer does: open episodes end as if truncated. Returns how many were open. */
int32_t history_truncate_all(history *h);

/* The reward as it is stored. */
double history_clipped(const history *h, float reward);

/* Adds a finished transition that belongs to no episode. */
void history_add(history_rows *all, const history_row *row);

/* The stack that an agent sees now. */
void history_stack(const history *h, int64_t env, int64_t *tags);

void history_rows_end(history_rows *all);
