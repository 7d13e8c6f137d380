/* SPDX-License-Identifier: MIT */
/* CartPole-v1: keep a pole upright on a cart by pushing left (action 0) or right (1).
 * tests/examples/test_cartpole.py compares it with Gymnasium's. */
#ifndef EXAMPLES_CARTPOLE_H
#define EXAMPLES_CARTPOLE_H

#include "env.h"

typedef struct cartpole {
    double x, x_dot;         /* the cart's position and speed: m, m/s */
    double theta, theta_dot; /* the pole's angle from upright and its rate: rad, rad/s */
    uint64_t random;
    int32_t steps; /* in this episode */
} cartpole;

extern const env_kind cartpole_kind;

#endif
