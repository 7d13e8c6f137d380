/* SPDX-License-Identifier: MIT */
/*
 * Target, loss and gradient of one or two critics of action vectors whose values are distributions Z_i(s, a), row by
 * row:
 *
 *   target  the distribution of r + discount (Z'(s', a') - alpha log pi(a'|s')), where Z' is the target critic's
 *           distribution with the smaller mean, or that of the only one [Seo et al. 2025]; the entropy only if given
 *   loss    the sum over the critics of their losses (kernels/learn/distribution_error.h)
 *
 * A row's priority is the mean over the critics of these, without the importance weight. The block shares a row.
 *
 * Arguments and shapes: gpur_critic_distribution_error_args.
 */
#pragma once

#include "kernels/learn/critic_error.h"
#include "kernels/learn/distribution.h"

/* The critic whose target has the smaller mean; the first of equal ones. */
GPUR_FN int32_t gpur_least_distribution(const gpur_critic_distribution_error_args *a, int64_t b)
{
    const gpur_critic_error_args *const c = &a->critic;
    const gpur_distribution *const d = &a->distribution;
    const float *const z = c->z_target + b * c->z_pitch;
    float least = 0.0f;
    int32_t found = 0;
    for (int32_t i = 0; i < c->critics && c->critics > 1; i++) {
        const float mean = gpur_distribution_mean(a->head, d, z + i * d->atoms, c->bias_target + i * d->atoms);
        found = i > 0 && mean < least ? i : found;
        least = i == 0 || mean < least ? mean : least;
    }
    return found;
}

/* Writes the gradient by the outputs of all critics, and the parts of their losses. */
GPUR_FN void gpur_critic_distribution_backward(gpur_thread at, const gpur_critic_distribution_error_args *a, int64_t b,
                                               float scale)
{
    const gpur_critic_error_args *const c = &a->critic;
    const gpur_distribution *const d = &a->distribution;
    const gpur_span s = gpur_block_span(at, d->atoms);
    for (int32_t critic = 0; critic < c->critics; critic++) {
        const int64_t first = (int64_t)critic * d->atoms;
        const float *const z = c->z + b * c->z_pitch + first, *const bias = c->bias + first;
        float *const dz = c->dz + b * c->z_pitch + first;
        float *const loss = a->atom_loss + b * c->critics * d->atoms + first;
        const float prepared = gpur_distribution_prepare(a->head, d, z, bias);
        for (int64_t i = s.first; i < s.last; i += s.step) {
            float slope;
            loss[i] = gpur_distribution_loss(a->head, d, a->kappa, (int32_t)i, z[i] + bias[i], prepared,
                                             a->target + b * d->atoms, &slope);
            dz[i] = scale == 0.0f ? 0.0f : slope * scale;
        }
    }
}

GPUR_FN void gpur_critic_distribution_error_row(gpur_thread at, const gpur_critic_distribution_error_args *a, int64_t b)
{
    const gpur_critic_error_args *const c = &a->critic;
    const gpur_distribution *const d = &a->distribution;
    const int is_trained = gpur_critic_action_is_valid(c, b);
    const float weight = c->weight[b], discount = c->discount[b];
    const float lost = c->entropy && discount != 0.0f ? discount * c->entropy[b] : 0.0f;
    const int64_t next = (int64_t)gpur_least_distribution(a, b) * d->atoms;
    gpur_distribution_target(at, a->head, d, c->reward[b] - lost, discount, c->z_target + b * c->z_pitch + next,
                             c->bias_target + next, a->target + b * d->atoms);
    gpur_barrier(at);
    gpur_critic_distribution_backward(at, a, b, is_trained ? weight / (float)c->batch : 0.0f);
    gpur_barrier(at);
    if (at.thread != 0)
        return;
    const int32_t numbers = c->critics * d->atoms;
    const float loss = is_trained ? gpur_sum_of_atoms(numbers, a->atom_loss + b * numbers, NULL) : 0.0f;
    float sum = 0.0f;
    for (int32_t i = 0; i < c->critics && is_trained; i++)
        sum += gpur_distribution_mean(a->head, d, c->z + b * c->z_pitch + i * d->atoms, c->bias + i * d->atoms);
    c->invalid[b] = is_trained ? 0.0f : 1.0f;
    c->loss[b] = weight * loss;
    c->td[b] = loss / (float)c->critics;
    c->q_taken[b] = sum / (float)c->critics;
}

GPUR_KERNEL(critic_distribution_error)
{
    const gpur_span s = gpur_block_rows(at, a->critic.batch);
    for (int64_t b = s.first; b < s.last; b += s.step)
        gpur_critic_distribution_error_row(at, a, b);
}
