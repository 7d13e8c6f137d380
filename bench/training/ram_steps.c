/* SPDX-License-Identifier: MIT */
#include "bench/training/ram_steps.h"

#include <string.h>

void ram_steps_begin(ram_steps *steps, const vec_env *envs)
{
    memcpy(steps->obs, envs->obs, sizeof steps->obs);
}

const melee_row *ram_steps_take(ram_steps *steps, const int32_t *actions, const vec_env *envs)
{
    for (int32_t i = 0; i < TRAINING_ENVS; i++) {
        melee_row *const row = &steps->row[i];
        memcpy(row->obs, steps->obs[i], sizeof row->obs);
        memcpy(row->next_obs, envs->next_obs + i * envs->obs_bytes, sizeof row->next_obs);
        row->action = actions[i];
        row->reward = envs->reward[i];
        row->terminated = envs->terminated[i];
    }
    ram_steps_begin(steps, envs);
    return steps->row;
}
