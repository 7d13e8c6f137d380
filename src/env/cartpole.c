/* SPDX-License-Identifier: MIT */
/*
 * CartPole-v1: keep a pole upright on a cart by pushing left (action 0) or right (1). The reward is 1 a step; an
 * episode ends when the pole falls or the cart leaves the track, and is truncated after 500 steps. Observed are the
 * cart's position and speed, the pole's angle and its rate. tests/env/test_cartpole.py compares it with Gymnasium's.
 */
#include "base/sized.h"
#include "env/games.h"
#include "env/options.h"
#include "env/random.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LEFT, RIGHT, ACTIONS };
enum { MAX_STEPS, OPTIONS }; /* indices of the options */

static const gpur_env_option_table option_table = {OPTIONS, {{"max_steps", 500.0, 0.0, GPUR_ENV_MAX_STEPS, 1}}};

/* An episode ends beyond these. */
static const double x_limit = 2.4, theta_limit = 12.0 * 2.0 * 3.141592653589793 / 360.0;

/* All of it is saved. */
typedef struct cartpole {
    gpur_env_settings settings;
    double x, x_dot;         /* the cart's position and speed: m, m/s */
    double theta, theta_dot; /* the pole's angle from upright and its rate: rad, rad/s */
    uint64_t random;         /* the seed, before the first reset */
    int64_t steps;           /* in this episode */
    int64_t is_open;         /* 1: an episode is; 0: reset comes next */
} cartpole;

/* The first step that leaves the limits ends the episode, so what is observed can be beyond them: Gymnasium has twice
 * the limits as bounds. */
static void describe(const cartpole *pole, gpur_env_info *info)
{
    static const float highs[] = {4.8f, INFINITY, 0.41887903f, INFINITY};
    static const float lows[] = {-4.8f, -INFINITY, -0.41887903f, -INFINITY};
    *info = (gpur_env_info){
        .size = sizeof *info,
        .obs = {.dtype = GPUR_FLOAT32, .shape = {4}, .low = -INFINITY, .high = INFINITY, .lows = lows, .highs = highs},
        .action = {.dtype = GPUR_INT32, .num_actions = ACTIONS, .low = LEFT, .high = RIGHT},
        .max_steps = (int64_t)pole->settings.values[MAX_STEPS],
        .save_bytes = sizeof *pole};
}

static const char *init(const char *options, uint64_t seed, gpur_env_info *info, void **env)
{
    cartpole pole = {.random = seed};
    gpur_env_info all;
    *env = NULL;
    GPUR_ENV_TRY(gpur_env_settings_read(&pole.settings, gpur_env_cartpole.name, &option_table, options));
    describe(&pole, &all);
    if (gpur_sized_write(info, &all, sizeof all, "gpur_env_info") != GPUR_OK)
        return gpur_env_refuse("%s", gpur_last_error());
    *env = malloc(sizeof pole);
    GPUR_ENV_REQUIRE(*env, "there is no memory for %zu bytes of %s", sizeof pole, gpur_env_cartpole.name);
    memcpy(*env, &pole, sizeof pole);
    return NULL;
}

static void observe(const cartpole *pole, float *obs)
{
    obs[0] = (float)pole->x;
    obs[1] = (float)pole->x_dot;
    obs[2] = (float)pole->theta;
    obs[3] = (float)pole->theta_dot;
}

/* Uniform in [-0.05, 0.05). */
static double random_start(cartpole *pole)
{
    const double bound = 0.05;
    return -bound + 2.0 * bound * gpur_env_random_uniform(&pole->random);
}

static const char *reset(void *env, void *obs)
{
    cartpole *const pole = env;
    pole->x = random_start(pole);
    pole->x_dot = random_start(pole);
    pole->theta = random_start(pole);
    pole->theta_dot = random_start(pole);
    pole->steps = 0;
    pole->is_open = 1;
    observe(pole, obs);
    return NULL;
}

/*
 * One Euler step of 0.02 s with the constants of Gymnasium's CartPole-v1, which are those of Barto, Sutton & Anderson
 * (1983) without friction. The accelerations are equations 23 and 24 of Florian, "Correct equations for the dynamics of
 * the cart-pole system" (2007), in Gymnasium's order of operations.
 */
static void move(cartpole *pole, double force)
{
    const double gravity = 9.8, mass_pole = 0.1, mass_total = 1.0 + 0.1, half_length = 0.5, tau = 0.02;
    const double mass_length = mass_pole * half_length;
    const double cosine = cos(pole->theta), sine = sin(pole->theta);
    const double swing = (force + mass_length * (pole->theta_dot * pole->theta_dot) * sine) / mass_total;
    const double theta_acc =
        (gravity * sine - cosine * swing) / (half_length * (4.0 / 3.0 - mass_pole * (cosine * cosine) / mass_total));
    const double x_acc = swing - mass_length * theta_acc * cosine / mass_total;
    pole->x += tau * pole->x_dot;
    pole->x_dot += tau * x_acc;
    pole->theta += tau * pole->theta_dot;
    pole->theta_dot += tau * theta_acc;
}

static const char *step(void *env, const void *action, void *obs, gpur_env_result *result)
{
    cartpole *const pole = env;
    const double push = 10.0; /* N */
    const int64_t max_steps = (int64_t)pole->settings.values[MAX_STEPS];
    int32_t side;
    memcpy(&side, action, sizeof side);
    GPUR_ENV_REQUIRE(pole->is_open, "%s has no open episode: it must be reset before its next step",
                     gpur_env_cartpole.name);
    GPUR_ENV_REQUIRE(side == LEFT || side == RIGHT, "the action of %s is %d; it must be %d or %d",
                     gpur_env_cartpole.name, (int)side, LEFT, RIGHT);
    move(pole, side == RIGHT ? push : -push);
    pole->steps++;
    observe(pole, obs);
    *result = (gpur_env_result){.reward = 1.0f};
    result->terminated = fabs(pole->x) > x_limit || fabs(pole->theta) > theta_limit;
    result->truncated = max_steps > 0 && pole->steps >= max_steps;
    pole->is_open = !result->terminated && !result->truncated;
    return NULL;
}

static const char *save(void *env, void *state)
{
    memcpy(state, env, sizeof(cartpole));
    return NULL;
}

static const char *load(void *env, const void *state)
{
    cartpole *const pole = env;
    cartpole saved;
    memcpy(&saved, state, sizeof saved);
    GPUR_ENV_TRY(gpur_env_settings_check(&pole->settings, &option_table, &saved.settings));
    GPUR_ENV_TRY(gpur_env_steps_check(&pole->settings, saved.steps));
    *pole = saved;
    return NULL;
}

const gpur_env_type gpur_env_cartpole = {
    .size = sizeof(gpur_env_type),
    .name = "CartPole-v1",
    .options = "max_steps=500  an episode is truncated after so many steps; 0: never\n",
    .init = init,
    .reset = reset,
    .step = step,
    .close = free,
    .save = save,
    .load = load,
};
