/* SPDX-License-Identifier: MIT */
/*
 * What an environment is to the examples: one constant table a game, and a block of memory a copy of it.
 *
 * The words are Gymnasium's. An episode begins with reset; each step leads to an observation, a reward, and perhaps the
 * end: `terminated` when the task itself ended, `truncated` when it was only cut off. After either comes the next
 * reset.
 */
#ifndef EXAMPLES_ENV_H
#define EXAMPLES_ENV_H

#include <gpureplay.h>

typedef struct env_outcome {
    float reward;
    uint8_t terminated;
    uint8_t truncated;
} env_outcome;

typedef struct env_kind {
    const char *name;
    gpur_field obs;        /* named "obs": dtype and shape, as the replay takes them */
    const float *obs_low;  /* (obs elements) bounds, infinite where there are none */
    const float *obs_high; /* (obs elements) */
    gpur_field action;     /* named "action" */
    int32_t actions;       /* discrete actions are 0 ... actions - 1; 0: the action is a vector */
    int32_t max_steps;     /* an episode is truncated here */
    float solved_return;   /* mean return of 100 episodes that counts as solved */
    int64_t state_bytes;   /* memory of one copy, given to the calls below as `env` */

    int (*init)(void *env, uint64_t seed); /* 0, or -1: no memory. The same seed plays the same episodes */
    void (*reset)(void *env, void *obs);   /* fills in the first observation of a new episode */
    env_outcome (*step)(void *env, const void *action, void *obs);
    void (*close)(void *env); /* gives back what init took; NULL: nothing */
} env_kind;

#endif
