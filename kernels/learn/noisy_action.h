/* SPDX-License-Identifier: MIT */
/* Actions of a deterministic policy, with noise for exploration: a = clip(tanh(z) + sigma n, -1, 1) with n of N(0, 1)
 * [Horgan et al. 2018, appendix D]. Arguments and shapes: gpur_noisy_action_args. */
#pragma once

#include "kernels/args_learn.h"
#include "kernels/learn/epsilon_greedy.h"
#include "kernels/lib/clip.h"
#include "kernels/lib/random.h"
#include "kernels/target/thread.h"

/* A normal number from two uniform ones [Box & Muller 1958]; another one, independent of it, if `is_sine`. The first is
 * uniform over (0, 1], so that the logarithm is finite. */
GPUR_FN float gpur_normal(uint32_t radius_bits, uint32_t angle_bits, int is_sine)
{
    const float u = gpur_random_uniform(radius_bits) + 5.9604644775390625e-8f;
    const float radius = sqrtf(-2.0f * logf(u)), angle = 6.28318530718f * gpur_random_uniform(angle_bits);
    return radius * (is_sine ? sinf(angle) : cosf(angle));
}

/* Both normal numbers of two uniform ones. */
GPUR_FN void gpur_normal_pair(uint32_t radius_bits, uint32_t angle_bits, float x[2])
{
    x[0] = gpur_normal(radius_bits, angle_bits, 0);
    x[1] = gpur_normal(radius_bits, angle_bits, 1);
}

/* The noise of component k of a row's action. `bits` are those of the components before it. */
GPUR_FN float gpur_action_noise(uint64_t seed, gpur_explore_row row, int32_t k, gpur_u32x4 *bits)
{
    const int pair = k % 4 / 2 * 2;
    if (k % 4 == 0)
        *bits = gpur_random_bits(seed, GPUR_RANDOM_ACTION_NOISE | (uint32_t)(k / 4) << 16, row.step, row.lane);
    return gpur_normal(bits->v[pair], bits->v[pair + 1], k % 2);
}

GPUR_FN void gpur_noisy_action_row(const gpur_noisy_action_args *a, const float *z, gpur_explore_row row, float *action)
{
    gpur_u32x4 bits;
    memset(&bits, 0, sizeof bits);
    for (int32_t k = 0; k < a->num_actions; k++) {
        action[k] = tanhf(z[k] + a->bias[k]);
        if (row.epsilon == 0.0f)
            continue;
        action[k] = gpur_clip(action[k] + row.epsilon * gpur_action_noise(a->seed, row, k, &bits), 1.0f);
    }
}

GPUR_KERNEL(noisy_action)
{
    const gpur_span s = gpur_grid_span(at, a->batch);
    for (int64_t b = s.first; b < s.last; b += s.step)
        gpur_noisy_action_row(a, a->z + b * a->z_pitch, gpur_explore_row_of(a->rows, a->step, a->epsilon, b),
                              a->per_action + b * a->num_actions);
}
