/* SPDX-License-Identifier: MIT */
#include "cartpole.h"
#include "env_random.h"

#include <math.h>

/* The constants of Gymnasium's CartPole-v1, which are those of Barto, Sutton & Anderson (1983), without friction. */
static const double gravity = 9.8;
static const double mass_pole = 0.1;
static const double mass_total = 1.0 + 0.1;
static const double half_length = 0.5; /* from the pivot to the pole's centre of mass */
static const double push = 10.0;       /* N */
static const double tau = 0.02;        /* s a step */
static const double x_limit = 2.4;
static const double theta_limit = 12.0 * 2.0 * 3.141592653589793 / 360.0;
static const double start = 0.05; /* every state variable begins within +- this */
enum { MAX_STEPS = 500 };

/* Gymnasium's bounds are twice the limits, so that the observation an episode ends with is within them. */
static const float low[4] = {-4.8f, -INFINITY, -0.41887903f, -INFINITY};
static const float high[4] = {4.8f, INFINITY, 0.41887903f, INFINITY};

static int cartpole_init(void *env, uint64_t seed)
{
    *(cartpole *)env = (cartpole){.random = seed};
    return 0;
}

static void observe(const cartpole *pole, float *obs)
{
    obs[0] = (float)pole->x;
    obs[1] = (float)pole->x_dot;
    obs[2] = (float)pole->theta;
    obs[3] = (float)pole->theta_dot;
}

static void cartpole_reset(void *env, void *obs)
{
    cartpole *const pole = env;
    pole->x = env_random_uniform(&pole->random, -start, start);
    pole->x_dot = env_random_uniform(&pole->random, -start, start);
    pole->theta = env_random_uniform(&pole->random, -start, start);
    pole->theta_dot = env_random_uniform(&pole->random, -start, start);
    pole->steps = 0;
    observe(pole, obs);
}

/*
 * One Euler step of tau. The accelerations are equations 23 and 24 of Florian, "Correct equations for the dynamics of
 * the cart-pole system" (2007), without friction, in Gymnasium's order of operations. In both, the pole enters by its
 * mass: m_p l in `swing`, and m_p cos^2 / m in the denominator.
 */
static void integrate(cartpole *pole, double force)
{
    const double cosine = cos(pole->theta), sine = sin(pole->theta);
    const double mass_length = mass_pole * half_length;
    const double swing = (force + mass_length * (pole->theta_dot * pole->theta_dot) * sine) / mass_total;
    const double theta_acc =
        (gravity * sine - cosine * swing) / (half_length * (4.0 / 3.0 - mass_pole * (cosine * cosine) / mass_total));
    const double x_acc = swing - mass_length * theta_acc * cosine / mass_total;
    pole->x += tau * pole->x_dot;
    pole->x_dot += tau * x_acc;
    pole->theta += tau * pole->theta_dot;
    pole->theta_dot += tau * theta_acc;
}

static env_outcome cartpole_step(void *env, const void *action, void *obs)
{
    cartpole *const pole = env;
    integrate(pole, *(const int32_t *)action == 1 ? push : -push);
    pole->steps++;
    observe(pole, obs);
    const int fell = fabs(pole->x) > x_limit || fabs(pole->theta) > theta_limit;
    return (env_outcome){.reward = 1.0f, .terminated = fell ? 1 : 0, .truncated = pole->steps >= MAX_STEPS ? 1 : 0};
}

const env_kind cartpole_kind = {
    .name = "CartPole-v1",
    .obs = {.name = "obs", .dtype = GPUR_FLOAT32, .shape = {4}},
    .obs_low = low,
    .obs_high = high,
    .action = {.name = "action", .dtype = GPUR_INT32},
    .actions = 2,
    .max_steps = MAX_STEPS,
    .solved_return = 475.0f,
    .state_bytes = sizeof(cartpole),
    .init = cartpole_init,
    .reset = cartpole_reset,
    .step = cartpole_step,
};
