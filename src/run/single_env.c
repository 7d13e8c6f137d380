/* SPDX-License-Identifier: MIT */
/* A vector environment of one as an environment that steps alone. */
#include "run/single_env.h"

#include "replay/schema.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

typedef struct single_env {
    const gpur_vector_env_type *type;
    void *vector;
    size_t obs_bytes;
    int has_ended;                       /* the last step ended an episode, and the vector begins the next one */
    unsigned char *next_obs, *final_obs; /* (obs_bytes) as in gpur_vector_result */
    _Alignas(max_align_t) unsigned char memory[];
} single_env;

const char *gpur_single_env_init(const gpur_vector_env_type *type, const char *options, uint64_t seed,
                                 gpur_env_info *info, void **env)
{
    void *vector = NULL;
    *env = NULL;
    const char *const refusal = type->init(options, seed, 1, info, &vector);
    if (refusal)
        return refusal;
    if (!vector)
        return "its init returned no environment";
    info->save_bytes = 0;
    size_t bytes = (size_t)gpur_dtype_bytes(info->obs.dtype);
    for (int i = 0; i < GPUR_MAX_DIMS && info->obs.shape[i] > 0; i++)
        bytes *= (size_t)info->obs.shape[i];
    const size_t room = (bytes + 63) / 64 * 64;
    single_env *const single = malloc(sizeof *single + 2 * room);
    if (!single) {
        type->close(vector);
        return "there is no memory for two of its observations";
    }
    *single = (single_env){.type = type, .vector = vector, .obs_bytes = bytes};
    single->next_obs = single->memory;
    single->final_obs = single->memory + room;
    *env = single;
    return NULL;
}

static const char *step_vector(single_env *single, const void *action, gpur_env_result *result)
{
    const gpur_vector_result arrays = {.next_obs = single->next_obs,
                                       .final_obs = single->final_obs,
                                       .reward = &result->reward,
                                       .terminated = &result->terminated,
                                       .truncated = &result->truncated,
                                       .continues = &result->continues};
    *result = (gpur_env_result){0};
    return single->type->step(single->vector, action, &arrays);
}

/* After an end the vector has begun the next episode, or does so in its next step, whose action means nothing. */
static const char *reset(void *env, void *obs)
{
    single_env *const single = env;
    const int32_t action = 0;
    const char *error = NULL;
    gpur_env_result result;
    if (!single->has_ended)
        error = single->type->reset(single->vector, single->next_obs);
    else if (single->type->autoreset == GPUR_AUTORESET_NEXT_STEP)
        error = step_vector(single, &action, &result);
    single->has_ended = 0;
    if (!error)
        memcpy(obs, single->next_obs, single->obs_bytes);
    return error;
}

static const char *step(void *env, const void *action, void *obs, gpur_env_result *result)
{
    single_env *const single = env;
    const char *const error = step_vector(single, action, result);
    if (error)
        return error;
    single->has_ended = result->terminated || result->truncated;
    const int is_final = single->has_ended && single->type->autoreset == GPUR_AUTORESET_SAME_STEP;
    memcpy(obs, is_final ? single->final_obs : single->next_obs, single->obs_bytes);
    return NULL;
}

static void close_env(void *env)
{
    single_env *const single = env;
    single->type->close(single->vector);
    free(single);
}

const gpur_env_type gpur_single_env = {
    .size = sizeof gpur_single_env, .name = "vector of one", .reset = reset, .step = step, .close = close_env};
