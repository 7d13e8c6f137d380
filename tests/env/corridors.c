/* SPDX-License-Identifier: MIT */
/* A plug-in whose only type steps many environments at once: corridors, at whose end is the reward. */
#include <gpureplay/env.h>

#include <stdlib.h>
#include <string.h>

enum { LENGTH = 5, MAX_STEPS = 30 };

typedef struct corridors {
    int32_t count;
    int32_t position[4096], steps[4096];
} corridors;

static const char *init(const char *options, uint64_t seed, int32_t num_envs, gpur_env_info *info, void **env)
{
    (void)seed; /* nothing is random in a corridor */
    *env = NULL;
    if (*options)
        return "it has no options";
    info->obs = (gpur_space){.dtype = GPUR_FLOAT32, .shape = {1}, .low = 0, .high = 1};
    info->action = (gpur_space){.dtype = GPUR_INT32, .num_actions = 2, .high = 1};
    info->max_steps = MAX_STEPS;
    info->save_bytes = 0;
    corridors *const c = calloc(1, sizeof *c);
    if (!c)
        return "there is no memory for the corridors";
    c->count = num_envs;
    *env = c;
    return NULL;
}

static void begin(corridors *c, int32_t i, float *obs)
{
    c->position[i] = c->steps[i] = 0;
    obs[i] = 0;
}

static const char *reset(void *env, void *obs)
{
    corridors *const c = env;
    for (int32_t i = 0; i < c->count; i++)
        begin(c, i, obs);
    return NULL;
}

static const char *step(void *env, const void *actions, const gpur_vector_result *result)
{
    corridors *const c = env;
    float *const next = result->next_obs, *const final = result->final_obs;
    for (int32_t i = 0; i < c->count; i++) {
        c->position[i] += ((const int32_t *)actions)[i] ? 1 : c->position[i] > 0 ? -1 : 0;
        next[i] = final[i] = (float)c->position[i] / LENGTH;
        result->terminated[i] = c->position[i] == LENGTH;
        result->truncated[i] = ++c->steps[i] == MAX_STEPS && !result->terminated[i];
        result->continues[i] = 0;
        result->reward[i] = result->terminated[i];
        if (result->terminated[i] || result->truncated[i])
            begin(c, i, next);
    }
    return NULL;
}

static const gpur_vector_env_type type = {.size = sizeof type,
                                          .name = "Corridors",
                                          .autoreset = GPUR_AUTORESET_SAME_STEP,
                                          .init = init,
                                          .reset = reset,
                                          .step = step,
                                          .close = free};
const gpur_vector_env_type *gpur_vector_env_plugin(const char *name)
{
    return strcmp(name, "") == 0 || strcmp(name, type.name) == 0 ? &type : NULL;
}
