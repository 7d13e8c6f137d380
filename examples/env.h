/* SPDX-License-Identifier: MIT */
/*
 * The interface of the examples' environments: a constant env_kind for each game, and `state_bytes` of memory for each
 * copy of the game.
 *
 * The terms are Gymnasium's. An episode begins with reset. Each step gives an observation, a reward and two flags:
 * `terminated` if the task itself ended, `truncated` if the episode was cut off. After either the next call is reset.
 */
#pragma once

#include <gpureplay.h>

typedef struct env_outcome {
    float reward;
    uint8_t terminated;
    uint8_t truncated;
} env_outcome;

typedef struct env_kind {
    const char *name;
    gpur_field obs;        /* named "obs": dtype and shape, as the replay takes them */
    const float *obs_low;  /* (obs elements) bounds; infinite if there is none */
    const float *obs_high; /* (obs elements) */
    gpur_field action;     /* named "action" */
    int32_t actions;       /* discrete actions are 0 to actions - 1; 0: the action is a vector */
    int32_t max_steps;     /* an episode is truncated after this many */
    float solved_return;   /* the game counts as solved if 100 episodes have this mean return */
    int64_t state_bytes;   /* memory of one copy, which the calls below get as `env` */

    int (*init)(void *env, uint64_t seed); /* 0, or -1: no memory. Equal seeds play equal episodes */
    void (*reset)(void *env, void *obs);   /* `obs`: the first observation of a new episode */
    env_outcome (*step)(void *env, const void *action, void *obs);
    void (*close)(void *env); /* frees what init allocated; NULL if init allocates nothing */
} env_kind;
