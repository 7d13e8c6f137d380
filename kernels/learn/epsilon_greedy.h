/* SPDX-License-Identifier: MIT */
/* Epsilon-greedy actions [Mnih et al. 2015, algorithm 1]. Arguments and shapes: gpur_explore_args. */
#ifndef GPUR_KERNELS_LEARN_EPSILON_GREEDY_H
#define GPUR_KERNELS_LEARN_EPSILON_GREEDY_H

#include "kernels/args_learn.h"
#include "kernels/learn/head.h"
#include "kernels/target/thread.h"
#include "kernels/lib/random.h"

/* With probability epsilon an action is uniformly random, else it is the first of those with the largest value. */
GPUR_KERNEL(explore)
{
    const gpur_span s = gpur_grid_span(at, a->batch);
    for (int64_t b = s.first; b < s.last; b += s.step) {
        float *const q = a->q + b * a->outputs;
        const gpur_u32x4 bits = gpur_random_bits(a->seed, GPUR_DRAW_EXPLORE, a->counter, (uint32_t)b);
        gpur_values_forward_row(a->head, a->outputs, a->z + b * a->z_pitch, a->bias, q);
        a->action[b] = gpur_random_unit(bits.v[2]) < a->epsilon ? (int32_t)gpur_random_below(bits, (uint64_t)a->outputs)
                                                                : gpur_head_best(a->outputs, q);
    }
}

#endif
