/* SPDX-License-Identifier: MIT */
/*
 * The losses of soft actor-critic beside that of its critics [Haarnoja et al. 2018b, eq. 7 and 18], with actions a
 * drawn from the policy:
 *
 *   actor        mean of alpha log pi(a|s) - min_i Q_i(s, a); kernel soft_value has the minimum, and which critic it is
 *   temperature  mean of -log alpha (log pi(a|s) + H) with the target entropy H. (The paper has alpha in the place of
 *                log alpha, and the authors' code log alpha: both vanish where the entropy is H)
 *
 * Arguments and shapes: gpur_soft_value_args, gpur_temperature_gradient_args.
 */
#pragma once

#include "kernels/args_learn.h"
#include "kernels/lib/fixed_sum.h"

GPUR_KERNEL(soft_value)
{
    const gpur_span s = gpur_grid_span(at, a->batch);
    const float alpha = expf(a->log_alpha[0]);
    for (int64_t b = s.first; b < s.last; b += s.step) {
        const float *const z = a->z + b * a->z_pitch;
        float *const dz = a->dz + b * a->z_pitch;
        float least = z[0] + a->bias[0];
        int32_t which = 0;
        for (int32_t i = 1; i < a->critics; i++) {
            const float value = z[i] + a->bias[i];
            which = value < least ? i : which;
            least = value < least ? value : least;
        }
        for (int32_t i = 0; i < a->critics; i++)
            dz[i] = i == which ? 1.0f : 0.0f;
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
