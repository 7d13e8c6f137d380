/* SPDX-License-Identifier: MIT */
/* The slots of a run as one vector environment, which steps all of them at once. */
#pragma once

#include "run/fast_dqn/env_slot.h"

typedef struct gpur_vector {
    const gpur_vector_env_type *type; /* NULL: the slots have environments of their own */
    void *env;
    void *memory;
    gpur_vector_result result; /* (slots, ...) in `memory` */
} gpur_vector;

/* Takes over vector->env, and allocates the arrays of a step. */
gpur_status gpur_vector_open(gpur_vector *vector, const gpur_obs_shape *shape, int32_t slots);
void gpur_vector_close(gpur_vector *vector); /* accepts a zeroed one */
void gpur_vector_close_env(gpur_vector *vector);

/* Begins the first episode of every slot. */
gpur_status gpur_vector_begin(gpur_vector *vector, gpur_env_slot *slots, int32_t count, int64_t step);

/* Takes a step of every slot: those numbered step, step + 1, ... `actions`: (count). *transitions: steps that did not
 * only begin an episode. *ended: 1 if a game has ended. */
gpur_status gpur_vector_step(gpur_vector *vector, gpur_env_slot *slots, int32_t count, int64_t step,
                             const int32_t *actions, int64_t *transitions, int *ended);
