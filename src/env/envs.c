/* SPDX-License-Identifier: MIT */
/* gpur_envs: environments of one type that step together. */
#include "base/dtype.h"
#include "env/limit.h"
#include "env/type.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

typedef struct one_env {
    void *env;       /* of the type; NULL after an init that failed */
    int64_t steps;   /* of its game so far */
    int32_t is_open; /* 1: an episode is */
    int32_t goes_on; /* 1: the last step lost a life, and the next reset goes on with the game */
} one_env;

struct gpur_envs {
    const gpur_env_type *type;
    gpur_env_info info;
    int64_t obs_bytes, action_bytes; /* of one environment */
    int32_t num_envs, autoreset;
    int32_t needs_reset; /* 1: all must be reset first: they never were, or a call has failed amid them */
    char *options;       /* of init; in the same allocation, behind the environments */
    one_env all[];
};

static int64_t bytes_of(const gpur_space *space)
{
    int64_t bytes = gpur_dtype_bytes(space->dtype);
    for (int i = 0; i < GPUR_MAX_DIMS && space->shape[i] > 0; i++)
        bytes *= space->shape[i];
    return bytes;
}

/* Puts in front of an environment's refusal which one it is; NULL is GPUR_OK. */
static gpur_status said_by(const gpur_envs *envs, int32_t i, const char *refusal)
{
    if (!refusal)
        return GPUR_OK;
    const gpur_status status = gpur_fail(GPUR_INVALID_ARGUMENT, "%s", refusal);
    return envs->num_envs > 1 ? gpur_prefix_error(status, "environment %d", (int)i) : status;
}

static void close_one(const gpur_envs *envs, one_env *one)
{
    if (one->env)
        envs->type->close(one->env);
    *one = (one_env){0};
}

static gpur_status make_one(gpur_envs *envs, int32_t i, uint64_t seed)
{
    one_env *const one = &envs->all[i];
    close_one(envs, one);
    envs->info = (gpur_env_info){.size = sizeof envs->info};
    GPUR_TRY(said_by(envs, i, envs->type->init(envs->options, seed, &envs->info, &one->env)));
    return one->env ? GPUR_OK : said_by(envs, i, "init returned no environment");
}

static gpur_status build(gpur_envs *envs, const uint64_t *seeds)
{
    for (int32_t i = 0; i < envs->num_envs; i++)
        GPUR_TRY(make_one(envs, i, seeds[i]));
    const gpur_space *const obs = &envs->info.obs, *const action = &envs->info.action;
    envs->obs_bytes = bytes_of(obs);
    envs->action_bytes = action->num_actions > 0 ? (int64_t)sizeof(int32_t) : bytes_of(action);
    GPUR_REQUIRE(envs->obs_bytes > 0 && envs->action_bytes > 0,
                 "%s has observations of type %d and actions of type %d; they must be GPUR_FLOAT32 (%d) to GPUR_BOOL "
                 "(%d)",
                 envs->type->name, (int)obs->dtype, (int)action->dtype, GPUR_FLOAT32, GPUR_BOOL);
    return GPUR_OK;
}

gpur_status gpur_envs_create(const gpur_env_type *type, const char *options, const uint64_t *seeds, int32_t num_envs,
                             int32_t autoreset, gpur_envs **envs)
{
    GPUR_REQUIRE(envs, "envs is NULL");
    *envs = NULL;
    GPUR_REQUIRE(type && options && seeds, "type, options or seeds is NULL; none may be");
    GPUR_TRY(gpur_env_type_check(type));
    GPUR_REQUIRE(num_envs >= 1, "num_envs is %d; it must be at least 1", (int)num_envs);
    GPUR_REQUIRE(autoreset >= GPUR_AUTORESET_DISABLED && autoreset <= GPUR_AUTORESET_SAME_STEP,
                 "autoreset is %d; it must be GPUR_AUTORESET_DISABLED (%d), _NEXT_STEP (%d) or _SAME_STEP (%d)",
                 (int)autoreset, GPUR_AUTORESET_DISABLED, GPUR_AUTORESET_NEXT_STEP, GPUR_AUTORESET_SAME_STEP);
    const size_t room = (size_t)num_envs * sizeof(one_env), text = strlen(options) + 1;
    gpur_envs *const made = calloc(1, sizeof *made + room + text);
    if (!made)
        return gpur_fail(GPUR_OUT_OF_MEMORY, "no memory for %d environments of %s", (int)num_envs, type->name);
    made->type = type;
    made->num_envs = num_envs;
    made->autoreset = autoreset;
    made->needs_reset = 1;
    made->options = (char *)&made->all[num_envs];
    memcpy(made->options, options, text);
    const gpur_status status = build(made, seeds);
    if (status != GPUR_OK) {
        gpur_envs_destroy(made);
        return status;
    }
    *envs = made;
    return GPUR_OK;
}

void gpur_envs_destroy(gpur_envs *envs)
{
    if (!envs)
        return;
    for (int32_t i = 0; i < envs->num_envs; i++)
        close_one(envs, &envs->all[i]);
    free(envs);
}

/* The part of environment i in an array (num_envs, ...) of such observations. */
static unsigned char *obs_of(const gpur_envs *envs, void *obs, int32_t i)
{
    return (unsigned char *)obs + i * envs->obs_bytes;
}

static gpur_status begin(gpur_envs *envs, int32_t i, void *obs)
{
    one_env *const one = &envs->all[i];
    GPUR_TRY(said_by(envs, i, envs->type->reset(one->env, obs_of(envs, obs, i))));
    one->steps = one->goes_on ? one->steps : 0;
    one->goes_on = 0;
    one->is_open = 1;
    return GPUR_OK;
}

static int is_chosen(const uint8_t *mask, int32_t i)
{
    return !mask || mask[i];
}

static gpur_status reset_chosen(gpur_envs *envs, const uint64_t *seeds, const uint8_t *mask, void *obs)
{
    for (int32_t i = 0; i < envs->num_envs; i++) {
        if (!is_chosen(mask, i))
            continue;
        if (seeds)
            GPUR_TRY(make_one(envs, i, seeds[i]));
        GPUR_TRY(begin(envs, i, obs));
    }
    return GPUR_OK;
}

/* Notes whether a call has left the environments amid a step. */
static gpur_status note(gpur_envs *envs, gpur_status status)
{
    envs->needs_reset = status != GPUR_OK;
    return status;
}

gpur_status gpur_envs_reset(gpur_envs *envs, const uint64_t *seeds, const uint8_t *mask, void *obs)
{
    int32_t left = 0, missing = -1;
    GPUR_REQUIRE(envs && obs, "envs or obs is NULL; neither may be");
    for (int32_t i = 0; i < envs->num_envs; i++) {
        left += !is_chosen(mask, i);
        missing = is_chosen(mask, i) && !seeds && !envs->all[i].env ? i : missing;
    }
    GPUR_REQUIRE(left == 0 || !envs->needs_reset,
                 "the mask leaves out %d of %d environments; all must be reset at first, and after a call that failed",
                 (int)left, (int)envs->num_envs);
    GPUR_REQUIRE(missing < 0, "environment %d could not be made in the reset before; seeds must be given",
                 (int)missing);
    return note(envs, reset_chosen(envs, seeds, mask, obs));
}

static const void *action_of(const gpur_envs *envs, const void *actions, int32_t i)
{
    return (const unsigned char *)actions + i * envs->action_bytes;
}

/* Before any environment has stepped. */
static gpur_status check_step(const gpur_envs *envs, const void *actions)
{
    const int32_t most = envs->info.action.num_actions - 1;
    for (int32_t i = 0; i < envs->num_envs; i++) {
        int32_t action = 0;
        GPUR_REQUIRE(envs->all[i].is_open || envs->autoreset != GPUR_AUTORESET_DISABLED,
                     "the episode of environment %d has ended; it must be reset before its next step", (int)i);
        if (most < 0 || !envs->all[i].is_open)
            continue;
        memcpy(&action, action_of(envs, actions, i), sizeof action);
        GPUR_REQUIRE(action >= 0 && action <= most, "the action of environment %d is %d; it must be 0 to %d", (int)i,
                     (int)action, (int)most);
    }
    return GPUR_OK;
}

/* A step that begins an episode, in place of the environment's own. */
static gpur_status begin_in_step(gpur_envs *envs, int32_t i, const gpur_vector_result *out)
{
    out->reward[i] = 0.0f;
    out->terminated[i] = out->truncated[i] = out->continues[i] = 0;
    return begin(envs, i, out->next_obs);
}

static gpur_status step_one(gpur_envs *envs, int32_t i, const void *action, const gpur_vector_result *out)
{
    one_env *const one = &envs->all[i];
    unsigned char *const obs = obs_of(envs, out->next_obs, i);
    gpur_env_result result = {0};
    GPUR_TRY(said_by(envs, i, envs->type->step(one->env, action, obs, &result)));
    one->goes_on = (result.terminated || result.truncated) && result.continues;
    gpur_env_limit(envs->info.max_steps, ++one->steps, &result);
    one->is_open = !result.terminated && !result.truncated;
    out->reward[i] = result.reward;
    out->terminated[i] = result.terminated != 0;
    out->truncated[i] = result.truncated != 0;
    out->continues[i] = one->goes_on != 0;
    if (one->is_open || envs->autoreset != GPUR_AUTORESET_SAME_STEP)
        return GPUR_OK;
    memcpy(obs_of(envs, out->final_obs, i), obs, (size_t)envs->obs_bytes);
    return begin(envs, i, out->next_obs);
}

static gpur_status step_all(gpur_envs *envs, const void *actions, const gpur_vector_result *out)
{
    for (int32_t i = 0; i < envs->num_envs; i++)
        GPUR_TRY(envs->all[i].is_open ? step_one(envs, i, action_of(envs, actions, i), out)
                                      : begin_in_step(envs, i, out));
    return GPUR_OK;
}

gpur_status gpur_envs_step(gpur_envs *envs, const void *actions, const gpur_vector_result *result)
{
    GPUR_REQUIRE(envs && actions && result, "envs, actions or result is NULL; none may be");
    GPUR_REQUIRE(result->next_obs && result->reward && result->terminated && result->truncated && result->continues,
                 "an array of result is NULL; only final_obs may be");
    GPUR_REQUIRE(result->final_obs || envs->autoreset != GPUR_AUTORESET_SAME_STEP,
                 "final_obs of result is NULL; with GPUR_AUTORESET_SAME_STEP it must be an array");
    GPUR_REQUIRE(!envs->needs_reset,
                 "the environments have no open episode; all must be reset at first, and after a call that failed");
    GPUR_TRY(check_step(envs, actions));
    return note(envs, step_all(envs, actions, result));
}
