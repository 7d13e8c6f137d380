/* SPDX-License-Identifier: MIT */
#include "vec_env.h"
#include "env_random.h"

#include <stdlib.h>
#include <string.h>

static int64_t field_bytes(const gpur_field *field)
{
    static const int64_t bytes[] = {
        [GPUR_FLOAT32] = 4, [GPUR_FLOAT16] = 2, [GPUR_UINT8] = 1, [GPUR_INT32] = 4, [GPUR_INT64] = 8, [GPUR_BOOL] = 1,
    };
    int64_t size = bytes[field->dtype];
    for (int d = 0; d < GPUR_MAX_DIMS && field->shape[d] > 0; d++)
        size *= field->shape[d];
    return size;
}

static void *state_of(const vec_env *envs, int32_t index)
{
    return envs->states + index * envs->kind->state_bytes;
}

static int take_memory(vec_env *envs)
{
    const size_t n = (size_t)envs->count;
    envs->states = calloc(n, (size_t)envs->kind->state_bytes);
    envs->obs = calloc(n, (size_t)envs->obs_bytes);
    envs->next_obs = calloc(n, (size_t)envs->obs_bytes);
    envs->reward = calloc(n, sizeof *envs->reward);
    envs->terminated = calloc(n, 1);
    envs->truncated = calloc(n, 1);
    envs->episode_return = calloc(n, sizeof *envs->episode_return);
    return envs->states && envs->obs && envs->next_obs && envs->reward && envs->terminated && envs->truncated &&
           envs->episode_return;
}

static int init_copies(vec_env *envs, uint64_t seed)
{
    for (int32_t i = 0; i < envs->count; i++) {
        if (envs->kind->init(state_of(envs, i), env_random_bits(&seed)) != 0)
            return 0;
        envs->opened++;
    }
    return 1;
}

int vec_env_open(vec_env *envs, const env_kind *kind, int32_t count, uint64_t seed)
{
    *envs = (vec_env){
        .kind = kind, .count = count, .obs_bytes = field_bytes(&kind->obs), .action_bytes = field_bytes(&kind->action)};
    if (!take_memory(envs) || !init_copies(envs, seed)) {
        vec_env_close(envs);
        return -1;
    }
    vec_env_reset(envs);
    return 0;
}

void vec_env_close(vec_env *envs)
{
    for (int32_t i = 0; i < envs->opened && envs->kind->close; i++)
        envs->kind->close(state_of(envs, i));
    free(envs->states);
    free(envs->obs);
    free(envs->next_obs);
    free(envs->reward);
    free(envs->terminated);
    free(envs->truncated);
    free(envs->episode_return);
    *envs = (vec_env){0};
}

void vec_env_reset(vec_env *envs)
{
    for (int32_t i = 0; i < envs->count; i++) {
        envs->kind->reset(state_of(envs, i), envs->obs + i * envs->obs_bytes);
        envs->terminated[i] = envs->truncated[i] = 0;
        envs->episode_return[i] = 0.0f;
    }
}

static void step_one(vec_env *envs, int32_t i, const void *action)
{
    unsigned char *const next_obs = envs->next_obs + i * envs->obs_bytes;
    if (vec_env_ended(envs, i))
        envs->episode_return[i] = 0.0f;
    const env_outcome outcome = envs->kind->step(state_of(envs, i), action, next_obs);
    envs->reward[i] = outcome.reward;
    envs->terminated[i] = outcome.terminated;
    envs->truncated[i] = outcome.truncated;
    envs->episode_return[i] += outcome.reward;
    if (vec_env_ended(envs, i))
        envs->kind->reset(state_of(envs, i), envs->obs + i * envs->obs_bytes);
    else
        memcpy(envs->obs + i * envs->obs_bytes, next_obs, (size_t)envs->obs_bytes);
}

void vec_env_step(vec_env *envs, const void *actions)
{
    for (int32_t i = 0; i < envs->count; i++)
        step_one(envs, i, (const unsigned char *)actions + i * envs->action_bytes);
}

const void *vec_env_obs(const vec_env *envs, int32_t index)
{
    return envs->obs + index * envs->obs_bytes;
}

int vec_env_ended(const vec_env *envs, int32_t index)
{
    return envs->terminated[index] || envs->truncated[index];
}
