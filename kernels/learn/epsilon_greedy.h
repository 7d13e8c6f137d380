/* SPDX-License-Identifier: MIT */
/* Epsilon-greedy actions [Mnih et al. 2015, algorithm 1]. Arguments and shapes: gpur_epsilon_greedy_args. */
#pragma once

#include "kernels/args_learn.h"
#include "kernels/learn/head.h"
#include "kernels/target/thread.h"
#include "kernels/lib/random.h"

/* What decides about row b: `rows`, or if that is NULL, `step` and `epsilon` of all rows. */
GPUR_FN gpur_explore_row gpur_explore_row_of(const gpur_explore_row *rows, uint64_t step, float epsilon, int64_t b)
{
    gpur_explore_row row;
    if (rows)
        return rows[b];
    row.step = step;
    row.lane = (uint32_t)b;
    row.epsilon = epsilon;
    return row;
}

/* The mask of row b; NULL: all actions are allowed. */
GPUR_FN const unsigned char *gpur_choice_mask(const gpur_choice_args *a, int64_t b)
{
    return a->mask ? a->mask + b * gpur_mask_bytes(a->num_actions) : NULL;
}

/* Of the allowed actions, each as likely as any other. */
GPUR_FN int32_t gpur_random_allowed(int32_t actions, const unsigned char *mask, gpur_u32x4 bits)
{
    const uint64_t count = (uint64_t)gpur_count_allowed(actions, mask);
    return gpur_find_allowed(actions, mask, (int32_t)gpur_random_below(bits, count));
}

/* With probability epsilon an action is uniformly random, else it is the first of those with the largest value q. */
GPUR_FN int32_t gpur_epsilon_greedy_action(const gpur_choice_args *a, int64_t b, const float *q)
{
    const gpur_explore_row row = gpur_explore_row_of(a->rows, a->step, a->epsilon, b);
    const gpur_u32x4 bits = gpur_random_bits(a->seed, GPUR_RANDOM_EXPLORE, row.step, row.lane);
    const unsigned char *const mask = gpur_choice_mask(a, b);
    if (mask)
        return gpur_random_uniform(bits.v[2]) < row.epsilon ? gpur_random_allowed(a->num_actions, mask, bits)
                                                            : gpur_argmax_allowed(a->num_actions, q, mask);
    return gpur_random_uniform(bits.v[2]) < row.epsilon ? (int32_t)gpur_random_below(bits, (uint64_t)a->num_actions)
                                                        : gpur_argmax_action(a->num_actions, q);
}

GPUR_KERNEL(epsilon_greedy)
{
    const gpur_span s = gpur_grid_span(at, a->batch);
    for (int64_t b = s.first; b < s.last; b += s.step) {
        float *const q = a->per_action + b * a->num_actions;
        gpur_values_forward_row(a->head, a->num_actions, a->z + b * a->z_pitch, a->bias, q);
        a->action[b] = gpur_epsilon_greedy_action(a, b, q);
    }
}
