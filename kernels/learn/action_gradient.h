/* SPDX-License-Identifier: MIT */
/*
 * Gradient of the loss -Q(s, mu(s)) + c |z|^2, averaged over the batch, by the actor's outputs z with mu = tanh(z)
 * [Silver et al. 2014, eq. 9; the penalty is that of Andrychowicz et al. 2017, appendix A]:
 *
 *   dz_k = (-clip(dQ / da_k) (1 - mu_k^2) + 2 c z_k) / B      clip: of each component [Horgan et al. 2018, appendix D]
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
        const float *const z = a->actor_z + b * a->actor_pitch;
        float *const dz = a->dz + b * a->actor_pitch;
        if (a->q)
            a->q[b] = a->z[b * a->z_pitch] + a->bias[0];
        for (int32_t k = 0; k < a->num_actions; k++) {
            const float penalty = 2.0f * a->penalty * (z[k] + a->actor_bias[k]);
            dz[k] = (penalty - gpur_clip(slope[k], limit) * (1.0f - mu[k] * mu[k])) / (float)a->batch;
        }
    }
}
