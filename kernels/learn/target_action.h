/* SPDX-License-Identifier: MIT */
/*
 * Target policy smoothing [Fujimoto et al. 2018, section 5.3 and algorithm 1]: the action at which the target critics
 * value next_obs is
 *
 *   a' = clip(mu'(s') + clip(sigma n, -c, c), -1, 1) with mu' = tanh(z) and n of N(0, 1), of each component its own
 *
 * The noise follows from the seed, the train step, the row of the batch and the component. Arguments and shapes:
 * gpur_target_action_args.
 */
#pragma once

#include "kernels/args_learn.h"
#include "kernels/learn/noisy_action.h"
#include "kernels/lib/clip.h"
#include "kernels/lib/random.h"
#include "kernels/target/thread.h"

GPUR_KERNEL(target_action)
{
    const gpur_span s = gpur_grid_span(at, a->batch);
    const float limit = a->clip > 0.0f ? a->clip : INFINITY;
    const uint64_t step = a->state->step;
    for (int64_t b = s.first; b < s.last; b += s.step) {
        gpur_u32x4 bits;
        memset(&bits, 0, sizeof bits);
        for (int32_t k = 0; k < a->num_actions; k++) {
            const uint32_t purpose = GPUR_RANDOM_TARGET_NOISE | (uint32_t)(k / 4) << 16;
            const int pair = k % 4 / 2 * 2;
            if (k % 4 == 0)
                bits = gpur_random_bits(a->seed, purpose, step, (uint32_t)b);
            const float noise = a->sigma * gpur_normal(bits.v[pair], bits.v[pair + 1], k % 2);
            const float mu = tanhf(a->z[b * a->z_pitch + k] + a->bias[k]);
            a->y[b * a->y_pitch + k] = gpur_clip(mu + gpur_clip(noise, limit), 1.0f);
        }
    }
}
