/* SPDX-License-Identifier: MIT */
/*
 * Target, loss and gradient of DQN with a head of distributions, row by row:
 *
 *   target  the distribution of r + discount Z_target(s', a*), where a* has the largest mean in Z_target(s'), or in
 *           Z(s') for double DQN [van Hasselt, Guez & Silver 2016, eq. 4]
 *   loss    QUANTILES: the sum of all quantiles' losses [Dabney et al. 2018, algorithm 1]
 *           CATEGORICAL: the cross-entropy of the projected target [Bellemare et al. 2017, algorithm 1]
 *
 * A row's priority is its loss without the importance weight. The block shares a row.
 *
 * Arguments and shapes: gpur_distribution_error_args.
 */
#pragma once

#include "kernels/learn/distribution_greedy.h"
#include "kernels/learn/td_error.h"

/* The action a* of row b; -1: none is allowed. Every thread must call it. */
GPUR_FN int32_t gpur_distribution_best(gpur_thread at, const gpur_distribution_error_args *a, int64_t b)
{
    const gpur_td_error_args *const td = &a->td;
    const int64_t row = td->double_dqn ? td->batch + b : b;
    const float *const z = td->double_dqn ? td->z : td->z_target;
    const float *const bias = td->double_dqn ? td->bias : td->bias_target;
    float *const q = (td->double_dqn ? td->q : td->q_target) + row * td->num_actions;
    gpur_distribution_means(at, td->head, &a->distribution, td->num_actions, z + row * td->z_pitch, bias, q);
    gpur_barrier(at);
    const unsigned char *const mask = gpur_next_mask(td, b);
    return mask ? gpur_argmax_allowed(td->num_actions, q, mask) : gpur_argmax_action(td->num_actions, q);
}

/* Writes the gradient by all outputs of row b, and the parts of its loss. `action` is -1 in a row that trains nothing,
 * and `scale` is what the loss of the row is multiplied by. */
GPUR_FN void gpur_distribution_backward(gpur_thread at, const gpur_distribution_error_args *a, int64_t b,
                                        int64_t action, float scale)
{
    const gpur_td_error_args *const td = &a->td;
    const gpur_distribution *const d = &a->distribution;
    const gpur_span s = gpur_block_span(at, (int64_t)td->num_actions * d->atoms);
    const int64_t first = action < 0 ? 0 : action * d->atoms;
    const float *const z = td->z + b * td->z_pitch, *const target = a->target + b * d->atoms;
    float *const dz = td->dz + b * td->z_pitch, *const loss = a->atom_loss + b * d->atoms;
    const float prepared = gpur_distribution_prepare(td->head, d, z + first, td->bias + first);
    for (int64_t k = s.first; k < s.last; k += s.step) {
        const int64_t i = k - first;
        float slope = 0.0f;
        if (action >= 0 && i >= 0 && i < d->atoms)
            loss[i] = gpur_distribution_loss(td->head, d, td->huber_delta, (int32_t)i, z[k] + td->bias[k], prepared,
                                             target, &slope);
        dz[k] = slope * scale;
    }
}

GPUR_FN void gpur_distribution_error_row(gpur_thread at, const gpur_distribution_error_args *a, int64_t b)
{
    const gpur_td_error_args *const td = &a->td;
    const gpur_distribution *const d = &a->distribution;
    const int64_t action = gpur_td_action(td, b);
    const int32_t best = gpur_distribution_best(at, a, b);
    const int64_t next = best < 0 ? 0 : (int64_t)best * d->atoms;
    const float discount = best < 0 ? 0.0f : td->discount[b];
    const int is_trained = action >= 0;
    const float weight = td->weight[b];
    gpur_distribution_target(at, td->head, d, td->reward[b], discount, td->z_target + b * td->z_pitch + next,
                             td->bias_target + next, a->target + b * d->atoms);
    gpur_barrier(at);
    gpur_distribution_backward(at, a, b, action, is_trained ? weight / (float)td->batch : 0.0f);
    gpur_barrier(at);
    if (at.thread != 0)
        return;
    const int64_t first = is_trained ? action * d->atoms : 0;
    const float loss = is_trained ? gpur_sum_of_atoms(d->atoms, a->atom_loss + b * d->atoms, NULL) : 0.0f;
    td->invalid[b] = is_trained ? 0.0f : 1.0f;
    td->loss[b] = weight * loss;
    td->td[b] = loss;
    td->q_taken[b] =
        is_trained ? gpur_distribution_mean(td->head, d, td->z + b * td->z_pitch + first, td->bias + first) : 0.0f;
}

GPUR_KERNEL(distribution_error)
{
    const gpur_span s = gpur_block_rows(at, a->td.batch);
    for (int64_t b = s.first; b < s.last; b += s.step)
        gpur_distribution_error_row(at, a, b);
}
