/* SPDX-License-Identifier: MIT */
/*
 * Gradient of the loss -Q(s, mu(s)), averaged over the batch, by the actor's outputs z with mu = tanh(z) [Silver et
 * al. 2014, eq. 9]:
 *
 *   dz_k = -clip(dQ / da_k) (1 - mu_k^2) / B      clip: of each component [Horgan et al. 2018, appendix D]
 *
 * Arguments and shapes: gpur_action_gradient_args.
 */
#pragma once

#include "kernels/args_learn.h"
#include "kernels/lib/clip.h"
#include "kernels/target/thread.h"

GPUR_KERNEL(action_gradient)
{
    const gpur_span s = gpur_grid_span(at, a->batch);
    const float limit = a->clip > 0.0f ? a->clip : INFINITY;
    for (int64_t b = s.first; b < s.last; b += s.step) {
        const float *const mu = a->action + b * a->action_pitch, *const slope = a->slope + b * a->action_pitch;
        float *const dz = a->dz + b * a->dz_pitch;
        a->q[b] = a->z[b * a->z_pitch] + a->bias[0];
        for (int32_t k = 0; k < a->num_actions; k++)
            dz[k] = -gpur_clip(slope[k], limit) * (1.0f - mu[k] * mu[k]) / (float)a->batch;
    }
}
