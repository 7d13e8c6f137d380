/* SPDX-License-Identifier: MIT */
/* Actions of a policy with probabilities: drawn from them, or the most probable ones. Arguments and shapes:
 * gpur_softmax_choice_args. */
#pragma once

#include "kernels/args_learn.h"
#include "kernels/learn/epsilon_greedy.h"
#include "kernels/learn/head.h"
#include "kernels/lib/random.h"
#include "kernels/target/thread.h"

/* The first action whose cumulated probability exceeds u. Rounding may leave the sum of all below u: then the last
 * action that is possible. */
GPUR_FN int32_t gpur_draw_action(int32_t outputs, const float *p, float u)
{
    float sum = 0.0f;
    int32_t last = 0;
    for (int32_t k = 0; k < outputs; k++) {
        sum += p[k];
        if (u < sum)
            return k;
        last = p[k] > 0.0f ? k : last;
    }
    return last;
}

/* `mask`: of the row; NULL: all actions are allowed. */
GPUR_FN int32_t gpur_softmax_action(const gpur_softmax_choice_args *a, const float *p, gpur_explore_row row,
                                    const unsigned char *mask)
{
    const gpur_u32x4 bits = gpur_random_bits(a->seed, GPUR_RANDOM_EXPLORE, row.step, row.lane);
    if (gpur_random_uniform(bits.v[2]) < row.epsilon)
        return mask ? gpur_random_allowed(a->num_actions, mask, bits)
                    : (int32_t)gpur_random_below(bits, (uint64_t)a->num_actions);
    const int32_t chosen = a->greedy ? gpur_argmax_action(a->num_actions, p)
                                     : gpur_draw_action(a->num_actions, p, gpur_random_uniform(bits.v[3]));
    return !mask || gpur_is_allowed(mask, chosen) /* probabilities may be NaN */
               ? chosen
               : gpur_find_allowed(a->num_actions, mask, 0);
}

GPUR_KERNEL(softmax_choice)
{
    const gpur_span s = gpur_grid_span(at, a->batch);
    for (int64_t b = s.first; b < s.last; b += s.step) {
        const float *const z = a->z + b * a->z_pitch;
        float *const p = a->per_action + b * a->num_actions;
        const unsigned char *const mask = gpur_choice_mask(a, b);
        if (mask)
            gpur_masked_softmax(a->num_actions, z, a->bias, a->floor, mask, p);
        else
            gpur_floored_softmax(a->num_actions, z, a->bias, a->floor, p);
        a->value[b] = z[a->num_actions] + a->bias[a->num_actions];
        a->action[b] = gpur_softmax_action(a, p, gpur_explore_row_of(a->rows, a->step, a->epsilon, b), mask);
    }
}
