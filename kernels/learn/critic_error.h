/* SPDX-License-Identifier: MIT */
/*
 * TD error, loss and gradient of one or two critics Q_i(s, a) of action vectors, row by row:
 *
 *   y = r + discount min_i Q'_i(s', a') [Lillicrap et al. 2016, algorithm 1; the minimum of two critics: Fujimoto et
 *       al. 2018, algorithm 1], or with an entropy
 *   y = r + discount (min_i Q'_i(s', a') - alpha log pi(a'|s')) [Haarnoja et al. 2018, eq. 3 and 5]
 *   d_i = Q_i(s, a) - y, and the loss is the sum over i of d_i^2 / 2
 *   dQ_i(s, a) = w d_i / B, with the importance weight w of the row
 *
 * Arguments and shapes: gpur_critic_error_args.
 */
#pragma once

#include "kernels/args_learn.h"
#include "kernels/target/thread.h"

/* 1: each number of the row's action is one that an actor gives. */
GPUR_FN int gpur_critic_action_is_valid(const gpur_critic_error_args *a, int64_t b)
{
    for (int32_t k = 0; k < a->num_actions; k++)
        if (!(fabsf(a->action[b * a->action_pitch + k]) <= 1.0f))
            return 0;
    return 1;
}

/* The target y of row b. */
GPUR_FN float gpur_critic_target(const gpur_critic_error_args *a, int64_t b)
{
    const float *const z = a->z_target + b * a->z_pitch;
    const float reward = a->reward[b], discount = a->discount[b];
    float least = z[0] + a->bias_target[0];
    for (int32_t i = 1; i < a->critics; i++) {
        const float value = z[i] + a->bias_target[i];
        least = value < least ? value : least;
    }
    if (a->entropy)
        least -= a->entropy[b];
    /* Discount 0 means no bootstrap, as after a terminal transition. Return without the product: 0 times an infinite
     * Q is NaN. */
    return discount == 0.0f ? reward : reward + discount * least;
}

GPUR_FN void gpur_critic_error_row(const gpur_critic_error_args *a, int64_t b)
{
    const int is_trained = gpur_critic_action_is_valid(a, b);
    const float weight = a->weight[b], y = gpur_critic_target(a, b);
    const float *const z = a->z + b * a->z_pitch;
    float *const dz = a->dz + b * a->z_pitch;
    float loss = 0.0f, error = 0.0f, sum = 0.0f;
    for (int32_t i = 0; i < a->critics; i++) {
        const float q = z[i] + a->bias[i], d = q - y;
        loss += 0.5f * d * d;
        error += fabsf(d);
        sum += q;
        dz[i] = is_trained ? weight * d / (float)a->batch : 0.0f;
    }
    a->invalid[b] = is_trained ? 0.0f : 1.0f;
    a->loss[b] = is_trained ? weight * loss : 0.0f;
    a->td[b] = is_trained ? error / (float)a->critics : 0.0f;
    a->q_taken[b] = is_trained ? sum / (float)a->critics : 0.0f;
}

GPUR_KERNEL(critic_error)
{
    const gpur_span s = gpur_grid_span(at, a->batch);
    for (int64_t b = s.first; b < s.last; b += s.step)
        gpur_critic_error_row(a, b);
}
