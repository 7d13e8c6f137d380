/* SPDX-License-Identifier: MIT */
/* Epsilon-greedy actions by the means of distributions. Arguments and shapes: gpur_distribution_greedy_args. */
#pragma once

#include "kernels/learn/distribution.h"
#include "kernels/learn/epsilon_greedy.h"

/* Writes the means of all actions of a row, whose outputs are z, to q (A): the threads of the block share them. A
 * barrier must follow. */
GPUR_FN void gpur_distribution_means(gpur_thread at, int32_t head, const gpur_distribution *d, int32_t actions,
                                     const float *z, const float *bias, float *q)
{
    const gpur_span s = gpur_block_span(at, actions);
    for (int64_t k = s.first; k < s.last; k += s.step)
        q[k] = gpur_distribution_mean(head, d, z + k * d->atoms, bias + k * d->atoms);
}

GPUR_KERNEL(distribution_greedy)
{
    const gpur_span s = gpur_block_rows(at, a->batch);
    for (int64_t b = s.first; b < s.last; b += s.step) {
        float *const q = a->per_action + b * a->num_actions;
        gpur_distribution_means(at, a->head, &a->distribution, a->num_actions, a->z + b * a->z_pitch, a->bias, q);
        gpur_barrier(at);
        if (at.thread == 0)
            a->action[b] = gpur_epsilon_greedy_action(a, b, q);
    }
}
