/* SPDX-License-Identifier: MIT */
/* A plug-in that shows frames in which nothing is random, so that equal actions give equal games. The return has the
 * actions: each is a digit of it, in base 2, as far as float32 holds them. A game has 20 steps; with the option "short"
 * it is cut off after 10, and with "lives" action 1 in the last step gains another 20. */
#include <gpureplay/env.h>

#include <stdlib.h>
#include <string.h>

enum { STEPS = 20 };

typedef struct frames {
    int steps, has_lives;
} frames;

static const char *show(const frames *f, unsigned char *obs)
{
    for (int i = 0; i < 144; i++)
        obs[i] = (unsigned char)(i * 37 + f->steps * 101 + f->steps * i);
    return NULL;
}

static const char *init(const char *options, uint64_t seed, gpur_env_info *info, void **env)
{
    (void)seed;
    frames *const f = *env = calloc(1, sizeof *f);
    if (!f)
        return "no memory";
    f->has_lives = strcmp(options, "lives") == 0;
    info->obs = (gpur_space){.dtype = GPUR_UINT8, .shape = {12, 12}, .high = 255};
    info->action = (gpur_space){.dtype = GPUR_INT32, .num_actions = 2, .high = 1};
    info->max_steps = strcmp(options, "short") == 0 ? STEPS / 2 : 2 * STEPS;
    return NULL;
}

static const char *reset(void *env, void *obs)
{
    frames *const f = env;
    f->steps = 0;
    return show(f, obs);
}

static const char *step(void *env, const void *action, void *obs, gpur_env_result *result)
{
    frames *const f = env;
    const int is_one = *(const int32_t *)action != 0, at = ++f->steps;
    result->reward = is_one ? (float)(1 << at % STEPS) : 0;
    result->terminated = at == STEPS;
    result->continues = at == STEPS && is_one && f->has_lives;
    return show(f, obs);
}

static const gpur_env_type type = {
    .size = sizeof type, .name = "Frames", .init = init, .reset = reset, .step = step, .close = free};

const gpur_env_type *gpur_env_plugin(const char *name)
{
    (void)name;
    return &type;
}
