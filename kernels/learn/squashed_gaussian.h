/* SPDX-License-Identifier: MIT */
/*
 * Actions from a Gaussian distribution that tanh squashes to (-1, 1) [Haarnoja et al. 2018a, appendix C], component by
 * component, with n of N(0, 1):
 *
 *   u = mean + sigma n, a = tanh(u)
 *   log pi(a | s) = sum of -n^2 / 2 - log sigma - log(2 pi) / 2 - log(1 - tanh(u)^2)
 *   log(1 - tanh(u)^2) = 2 (log 2 - |u| - log(1 + e^(-2 |u|))), which no u makes infinite
 *
 * Gradients by mean and log sigma at a given n, with the derivative 2 tanh(u) of -log(1 - tanh(u)^2):
 *
 *   d log pi / d mean = 2 a                    da / d mean = 1 - a^2
 *   d log pi / d log sigma = -1 + 2 a sigma n  da / d log sigma = (1 - a^2) sigma n
 *
 * log sigma is clipped to -20 to 2; beyond these limits its gradient is 0. Arguments and shapes:
 * gpur_gaussian_sample_args, gpur_gaussian_gradient_args, gpur_choice_args.
 */
#pragma once

#include "kernels/args_learn.h"
#include "kernels/learn/noisy_action.h"

#define GPUR_LOG_SIGMA_MIN (-20.0f)
#define GPUR_LOG_SIGMA_MAX 2.0f
#define GPUR_LOG_2 0.693147181f
#define GPUR_HALF_LOG_2_PI 0.918938533f

/* tanh(u), and its derivative 1 - tanh(u)^2 with the logarithm of that. */
typedef struct gpur_squashed {
    float action, slope, log_slope;
} gpur_squashed;

GPUR_FN gpur_squashed gpur_squash(float u)
{
    const float size = fabsf(u), e = expf(-2.0f * size), s = 1.0f / (1.0f + e);
    gpur_squashed result;
    result.action = copysignf((1.0f - e) * s, u);
    result.slope = 4.0f * e * s * s;
    result.log_slope = 2.0f * (GPUR_LOG_2 - size - logf(1.0f + e));
    return result;
}

GPUR_FN float gpur_log_sigma(float z)
{
    return z < GPUR_LOG_SIGMA_MIN ? GPUR_LOG_SIGMA_MIN : z > GPUR_LOG_SIGMA_MAX ? GPUR_LOG_SIGMA_MAX : z;
}

/* The logarithm of the density of a component's action, where `noise` is that of its draw. */
GPUR_FN float gpur_gaussian_log_prob(float noise, float log_sigma, float log_slope)
{
    return -(0.5f * noise * noise + log_sigma + GPUR_HALF_LOG_2_PI + log_slope);
}

/* The policy's components of row b. Returns log pi of their action. */
GPUR_FN float gpur_gaussian_choice_row(const gpur_choice_args *a, const float *z, gpur_explore_row row, float *action)
{
    float log_prob = 0.0f;
    gpur_u32x4 bits;
    memset(&bits, 0, sizeof bits);
    for (int32_t k = 0; k < a->num_actions; k++) {
        const float mean = z[k] + a->bias[k];
        const float log_sigma = gpur_log_sigma(z[a->num_actions + k] + a->bias[a->num_actions + k]);
        const float noise = a->greedy ? 0.0f : gpur_action_noise(a->seed, row, k, &bits);
        const gpur_squashed squashed = gpur_squash(mean + expf(log_sigma) * noise);
        action[k] = squashed.action;
        log_prob += gpur_gaussian_log_prob(noise, log_sigma, squashed.log_slope);
    }
    return log_prob;
}

GPUR_KERNEL(gaussian_choice)
{
    const gpur_span s = gpur_grid_span(at, a->batch);
    for (int64_t b = s.first; b < s.last; b += s.step)
        a->value[b] =
            gpur_gaussian_choice_row(a, a->z + b * a->z_pitch, gpur_explore_row_of(a->rows, a->step, a->epsilon, b),
                                     a->per_action + b * a->num_actions);
}

/* Four normal numbers of a draw, numbers 4 group to 4 group + 3. */
typedef struct gpur_normals {
    int64_t group; /* -1: none yet */
    float x[4];
} gpur_normals;

/* Normal number i of a draw. The group of the one before is used again. */
GPUR_FN float gpur_normal_of_draw(const gpur_gaussian_sample_args *a, uint64_t step, int64_t i, gpur_normals *held)
{
    if (i / 4 != held->group) {
        const gpur_u32x4 bits = gpur_random_bits(a->seed, GPUR_RANDOM_POLICY_DRAW, step, (uint32_t)(i / 4));
        for (int k = 0; k < 4; k += 2)
            gpur_normal_pair(bits.v[k], bits.v[k + 1], &held->x[k]);
        held->group = i / 4;
    }
    const int k = (int)(i % 4); /* chosen by constant indices: a GPU keeps the numbers in registers */
    return k == 0 ? held->x[0] : k == 1 ? held->x[1] : k == 2 ? held->x[2] : held->x[3];
}

GPUR_KERNEL(gaussian_sample)
{
    const gpur_span s = gpur_grid_span(at, a->batch);
    const int64_t actions = a->num_actions;
    const uint64_t step = a->state->step;
    gpur_normals held = {-1, {0.0f, 0.0f, 0.0f, 0.0f}};
    for (int64_t b = s.first; b < s.last; b += s.step) {
        const float *const z = a->z + b * a->z_pitch;
        float log_prob = 0.0f;
        for (int64_t k = 0; k < actions; k++) {
            const float n = gpur_normal_of_draw(a, step, (a->first_row + b) * actions + k, &held);
            const float log_sigma = gpur_log_sigma(z[actions + k] + a->bias[actions + k]);
            const gpur_squashed squashed = gpur_squash(z[k] + a->bias[k] + expf(log_sigma) * n);
            a->noise[b * actions + k] = n;
            a->action[b * a->action_pitch + k] = squashed.action;
            log_prob += gpur_gaussian_log_prob(n, log_sigma, squashed.log_slope);
        }
        a->log_prob[b] = log_prob;
        if (a->entropy)
            a->entropy[b] = expf(a->log_alpha[0]) * log_prob;
    }
}

GPUR_KERNEL(gaussian_gradient)
{
    const gpur_span s = gpur_grid_span(at, a->batch);
    const int64_t actions = a->num_actions;
    const float alpha = expf(a->log_alpha[0]), scale = 1.0f / (float)a->batch;
    for (int64_t b = s.first; b < s.last; b += s.step) {
        const float *const z = a->z + b * a->z_pitch, *const slope = a->slope + b * a->slope_pitch;
        float *const dz = a->dz + b * a->z_pitch;
        for (int64_t k = 0; k < actions; k++) {
            const float raw = z[actions + k] + a->bias[actions + k], log_sigma = gpur_log_sigma(raw);
            const float spread = expf(log_sigma) * a->noise[b * actions + k];
            const gpur_squashed squashed = gpur_squash(z[k] + a->bias[k] + spread);
            const float du = alpha * 2.0f * squashed.action - slope[k] * squashed.slope;
            dz[k] = scale * du;
            dz[actions + k] = raw == log_sigma ? scale * (du * spread - alpha) : 0.0f;
        }
    }
}
