/* SPDX-License-Identifier: MIT */
/* A plug-in whose types test_plugin.py spoils: CHANGE and VECTOR_CHANGE are initializers that come last. */
#include <gpureplay/env.h>

#include <stdlib.h>
#include <string.h>

#ifndef CHANGE
#define CHANGE .name = "Counter"
#endif
#ifndef VECTOR_CHANGE
#define VECTOR_CHANGE .name = "Counters"
#endif

/* Counts steps; an episode has three. */
static const char *init(const char *options, uint64_t seed, gpur_env_info *info, void **env)
{
    (void)options;
    (void)seed;
    info->obs = info->action = (gpur_space){.dtype = GPUR_FLOAT32, .shape = {1}, .high = 3};
    info->max_steps = info->save_bytes = 0;
    *env = calloc(1, sizeof(float));
    return *env ? NULL : "no memory";
}

static const char *reset(void *env, void *obs)
{
    *(float *)obs = *(float *)env = 0;
    return NULL;
}

static const char *step(void *env, const void *action, void *obs, gpur_env_result *result)
{
    (void)action;
    *(float *)obs = *(float *)env += 1;
    *result = (gpur_env_result){.reward = 1, .terminated = *(float *)env == 3};
    return NULL;
}

static const char *save(void *env, void *state)
{
    memcpy(state, env, sizeof(float));
    return NULL;
}

static const char *load(void *env, const void *state)
{
    memcpy(env, state, sizeof(float));
    return NULL;
}

static const char *init_vector(const char *options, uint64_t seed, int32_t num_envs, gpur_env_info *info, void **env)
{
    return num_envs == 1 ? init(options, seed, info, env) : "num_envs must be 1";
}

static const char *step_vector(void *env, const void *actions, const gpur_vector_result *result)
{
    gpur_env_result one;
    step(env, actions, result->next_obs, &one);
    *result->reward = one.reward;
    *result->terminated = one.terminated;
    *result->truncated = *result->continues = 0;
    return NULL;
}

/* As a later version of the header could have the type: with a member that this library does not know. */
typedef struct later_type {
    gpur_env_type type;
    uint64_t later;
} later_type;
static const later_type later = {.type = {.size = sizeof(gpur_env_type),
                                          .init = init,
                                          .reset = reset,
                                          .step = step,
                                          .close = free,
                                          .save = save,
                                          .load = load,
                                          CHANGE},
                                 .later = 1};
const gpur_env_type *gpur_env_plugin(const char *name)
{
    return strcmp(name, "Nothing") == 0 ? NULL : &later.type;
}

static const gpur_vector_env_type vector_type = {.size = sizeof vector_type,
                                                 .autoreset = GPUR_AUTORESET_NEXT_STEP,
                                                 .init = init_vector,
                                                 .reset = reset,
                                                 .step = step_vector,
                                                 .close = free,
                                                 VECTOR_CHANGE};
const gpur_vector_env_type *gpur_vector_env_plugin(const char *name)
{
    return strcmp(name, "Nothing") == 0 ? NULL : &vector_type;
}
