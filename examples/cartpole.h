/* SPDX-License-Identifier: MIT */
/*
 * CartPole-v1: keep a pole upright on a cart by pushing left (action 0) or right (1). The reward is 1 a step; an
 * episode ends when the pole falls or the cart leaves the track, and is truncated after 500 steps. Observed are the
 * cart's position and speed, the pole's angle and its rate. tests/examples/test_cartpole.py compares it with
 * Gymnasium's.
 */
#pragma once

#include "env_random.h"

#include <math.h>

enum { CARTPOLE_OBS = 4, CARTPOLE_ACTIONS = 2, CARTPOLE_MAX_STEPS = 500 };

typedef struct cartpole {
    double x, x_dot;         /* the cart's position and speed: m, m/s */
    double theta, theta_dot; /* the pole's angle from upright and its rate: rad, rad/s */
    uint64_t random;         /* its seed, before the first reset */
    int32_t steps;           /* in this episode */
} cartpole;

/* Fills in the observation (CARTPOLE_OBS). */
static inline void cartpole_observe(const cartpole *pole, float *obs)
{
    obs[0] = (float)pole->x;
    obs[1] = (float)pole->x_dot;
    obs[2] = (float)pole->theta;
    obs[3] = (float)pole->theta_dot;
}

/* Begins an episode; every state variable starts within 0.05. */
static inline void cartpole_reset(cartpole *pole, float *obs)
{
    const double start = 0.05;
    pole->x = env_random_uniform(&pole->random, -start, start);
    pole->x_dot = env_random_uniform(&pole->random, -start, start);
    pole->theta = env_random_uniform(&pole->random, -start, start);
    pole->theta_dot = env_random_uniform(&pole->random, -start, start);
    pole->steps = 0;
    cartpole_observe(pole, obs);
}

/*
 * One Euler step of 0.02 s with the constants of Gymnasium's CartPole-v1, which are those of Barto, Sutton & Anderson
 * (1983) without friction. The accelerations are equations 23 and 24 of Florian, "Correct equations for the dynamics of
 * the cart-pole system" (2007), in Gymnasium's order of operations.
 */
static inline void cartpole_step(cartpole *pole, int32_t action, float *obs, uint8_t *terminated, uint8_t *truncated)
{
    const double gravity = 9.8, mass_pole = 0.1, mass_total = 1.0 + 0.1, half_length = 0.5, tau = 0.02;
    const double x_limit = 2.4, theta_limit = 12.0 * 2.0 * 3.141592653589793 / 360.0;
    const double force = action == 1 ? 10.0 : -10.0, mass_length = mass_pole * half_length;
    const double cosine = cos(pole->theta), sine = sin(pole->theta);
    const double swing = (force + mass_length * (pole->theta_dot * pole->theta_dot) * sine) / mass_total;
    const double theta_acc =
        (gravity * sine - cosine * swing) / (half_length * (4.0 / 3.0 - mass_pole * (cosine * cosine) / mass_total));
    const double x_acc = swing - mass_length * theta_acc * cosine / mass_total;
    pole->x += tau * pole->x_dot;
    pole->x_dot += tau * x_acc;
    pole->theta += tau * pole->theta_dot;
    pole->theta_dot += tau * theta_acc;
    pole->steps++;
    cartpole_observe(pole, obs);
    *terminated = fabs(pole->x) > x_limit || fabs(pole->theta) > theta_limit;
    *truncated = pole->steps >= CARTPOLE_MAX_STEPS;
}
