/* SPDX-License-Identifier: MIT */
/*
 * Pendulum: swing up a pendulum by a torque, and keep it upright, as Gymnasium's Pendulum-v1. The reward is
 * -(theta^2 + 0.1 theta_dot^2 + 0.001 torque^2), with theta in [-pi, pi), 0 upright; an episode never ends by itself,
 * and is truncated after 200 steps. Observed are cos theta, sin theta and theta_dot. tests/env/test_pendulum.py
 * compares it with Gymnasium's.
 */
#include "base/sized.h"
#include "env/games.h"
#include "env/options.h"
#include "env/random.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_STEPS, OPTIONS }; /* indices of the options */

static const gpur_env_option_table option_table = {OPTIONS, {{"max_steps", 200.0, 0.0, GPUR_ENV_MAX_STEPS, 1}}};

static const double pi = 3.141592653589793, max_speed = 8.0; /* rad, rad/s */
static const double max_torque = 2.0;                        /* N m */

/* All of it is saved. */
typedef struct pendulum {
    gpur_env_settings settings;
    double theta, theta_dot; /* the angle from upright, which counts full turns, and its rate: rad, rad/s */
    uint64_t random;         /* the seed, before the first reset */
    int64_t steps;           /* in this episode */
    int64_t is_open;         /* 1: an episode is; 0: reset comes next */
} pendulum;

static void describe(const pendulum *p, gpur_env_info *info)
{
    static const float highs[] = {1.0f, 1.0f, 8.0f}, lows[] = {-1.0f, -1.0f, -8.0f};
    *info = (gpur_env_info){
        .size = sizeof *info,
        .obs = {.dtype = GPUR_FLOAT32, .shape = {3}, .low = -8.0f, .high = 8.0f, .lows = lows, .highs = highs},
        .action = {.dtype = GPUR_FLOAT32, .shape = {1}, .low = (float)-max_torque, .high = (float)max_torque},
        .max_steps = (int64_t)p->settings.values[MAX_STEPS],
        .save_bytes = sizeof *p};
}

static const char *init(const char *options, uint64_t seed, gpur_env_info *info, void **env)
{
    pendulum p = {.random = seed};
    gpur_env_info all;
    *env = NULL;
    GPUR_ENV_TRY(gpur_env_settings_read(&p.settings, gpur_env_pendulum.name, &option_table, options));
    describe(&p, &all);
    if (gpur_sized_write(info, &all, sizeof all, "gpur_env_info") != GPUR_OK)
        return gpur_env_refuse("%s", gpur_last_error());
    *env = malloc(sizeof p);
    GPUR_ENV_REQUIRE(*env, "there is no memory for %zu bytes of %s", sizeof p, gpur_env_pendulum.name);
    memcpy(*env, &p, sizeof p);
    return NULL;
}

static void observe(const pendulum *p, float *obs)
{
    obs[0] = (float)cos(p->theta);
    obs[1] = (float)sin(p->theta);
    obs[2] = (float)p->theta_dot;
}

/* The angle is uniform in [-pi, pi), and its rate in [-1, 1). */
static const char *reset(void *env, void *obs)
{
    pendulum *const p = env;
    p->theta = pi * (2.0 * gpur_env_random_uniform(&p->random) - 1.0);
    p->theta_dot = 2.0 * gpur_env_random_uniform(&p->random) - 1.0;
    p->steps = 0;
    p->is_open = 1;
    observe(p, obs);
    return NULL;
}

static double limited(double value, double most)
{
    return value < -most ? -most : value > most ? most : value;
}

/* The angle within [-pi, pi). */
static double normalized(double theta)
{
    const double turn = 2.0 * pi, rest = fmod(theta + pi, turn);
    return (rest < 0.0 ? rest + turn : rest) - pi;
}

/* A step of 0.05 s: the rate by the torques of gravity, 10 m/s^2, and of the action on a rod of 1 kg and 1 m, whose
 * moment of inertia is 1/3; and then the angle by the new rate. */
static void move(pendulum *p, double torque)
{
    const double gravity = 10.0, mass = 1.0, length = 1.0, tau = 0.05;
    const double acceleration =
        3.0 * gravity / (2.0 * length) * sin(p->theta) + 3.0 / (mass * length * length) * torque;
    p->theta_dot = limited(p->theta_dot + acceleration * tau, max_speed);
    p->theta += p->theta_dot * tau;
}

static double cost_of(const pendulum *p, double torque)
{
    const double angle = normalized(p->theta);
    return angle * angle + 0.1 * (p->theta_dot * p->theta_dot) + 0.001 * (torque * torque);
}

/* A torque beyond the bounds counts as the bound, as in Gymnasium. */
static const char *step(void *env, const void *action, void *obs, gpur_env_result *result)
{
    pendulum *const p = env;
    const int64_t max_steps = (int64_t)p->settings.values[MAX_STEPS];
    float given;
    memcpy(&given, action, sizeof given);
    GPUR_ENV_REQUIRE(p->is_open, "%s has no open episode: it must be reset before its next step",
                     gpur_env_pendulum.name);
    GPUR_ENV_REQUIRE(!isnan(given), "the action of %s is NaN; it must be a torque of %g to %g", gpur_env_pendulum.name,
                     -max_torque, max_torque);
    const double torque = limited((double)given, max_torque);
    *result = (gpur_env_result){.reward = (float)-cost_of(p, torque)};
    move(p, torque);
    p->steps++;
    observe(p, obs);
    result->truncated = max_steps > 0 && p->steps >= max_steps;
    p->is_open = !result->truncated;
    return NULL;
}

static const char *save(void *env, void *state)
{
    memcpy(state, env, sizeof(pendulum));
    return NULL;
}

static const char *load(void *env, const void *state)
{
    pendulum *const p = env;
    pendulum saved;
    memcpy(&saved, state, sizeof saved);
    GPUR_ENV_TRY(gpur_env_settings_check(&p->settings, &option_table, &saved.settings));
    GPUR_ENV_TRY(gpur_env_steps_check(&p->settings, saved.steps));
    *p = saved;
    return NULL;
}

const gpur_env_type gpur_env_pendulum = {
    .size = sizeof(gpur_env_type),
    .name = "Pendulum",
    .options = "max_steps=200  an episode is truncated after so many steps; 0: never\n",
    .init = init,
    .reset = reset,
    .step = step,
    .close = free,
    .save = save,
    .load = load,
};
