/* SPDX-License-Identifier: MIT */
/*
 * The losses of soft actor-critic beside that of its critics [Haarnoja et al. 2018b, eq. 7 and 18], with actions a
 * drawn from the policy:
 *
 *   actor        mean of alpha log pi(a|s) - min_i Q_i(s, a), where Q_i is the mean of a distribution, if the critics
 *                learn those; kernel soft_value has the minimum, and its gradient by the critics' outputs
 *   temperature  mean of -log alpha (log pi(a|s) + H) with the target entropy H. (The paper has alpha in the place of
 *                log alpha, and the authors' code log alpha: both vanish where the entropy is H)
 *
 * Arguments and shapes: gpur_soft_value_args, gpur_temperature_gradient_args.
 */
#pragma once

#include "kernels/lib/fixed_sum.h"
#include "kernels/learn/distribution_slope.h"

/* The outputs of a critic. */
GPUR_FN int32_t gpur_soft_value_numbers(const gpur_soft_value_args *a)
{
    return a->distribution.atoms > 0 ? a->distribution.atoms : 1;
}

/* Q_i of row b, of a distribution its mean. */
GPUR_FN float gpur_soft_value_of(const gpur_soft_value_args *a, int64_t b, int32_t i)
{
    const int64_t first = (int64_t)i * gpur_soft_value_numbers(a);
    const float *const z = a->z + b * a->z_pitch + first, *const bias = a->bias + first;
    return a->distribution.atoms > 0 ? gpur_distribution_mean(a->head, &a->distribution, z, bias) : z[0] + bias[0];
}

/* Writes the gradient of Q_which, which is `least`, by the outputs of all critics. */
GPUR_FN void gpur_soft_value_slopes(const gpur_soft_value_args *a, int64_t b, int32_t which, float least)
{
    const int32_t numbers = gpur_soft_value_numbers(a);
    const int64_t first = (int64_t)which * numbers;
    float *const dz = a->dz + b * a->z_pitch;
    for (int32_t i = 0; i < a->critics * numbers; i++)
        dz[i] = 0.0f;
    dz[first] = 1.0f;
    if (a->distribution.atoms > 0)
        gpur_distribution_slopes(a->head, &a->distribution, a->z + b * a->z_pitch + first, a->bias + first, least,
                                 dz + first);
}

GPUR_KERNEL(soft_value)
{
    const gpur_span s = gpur_grid_span(at, a->batch);
    const float alpha = expf(a->log_alpha[0]);
    for (int64_t b = s.first; b < s.last; b += s.step) {
        float least = gpur_soft_value_of(a, b, 0);
        int32_t which = 0;
        for (int32_t i = 1; i < a->critics; i++) {
            const float value = gpur_soft_value_of(a, b, i);
            which = value < least ? i : which;
            least = value < least ? value : least;
        }
        gpur_soft_value_slopes(a, b, which, least);
        a->loss[b] = alpha * a->log_prob[b] - least;
        a->entropy[b] = -a->log_prob[b];
    }
}

/* By one block. */
GPUR_KERNEL(temperature_gradient)
{
    const float mean = gpur_fixed_sum(at, a->log_prob, a->batch) / (float)a->batch, error = mean + a->target_entropy;
    if (at.block > 0 || at.thread > 0)
        return;
    a->gradient[0] = a->is_fixed ? 0.0f : -error;
    a->loss[0] = -a->log_alpha[0] * error;
    a->alpha[0] = expf(a->log_alpha[0]);
}
