/* SPDX-License-Identifier: MIT */
/*
 * The distributions of returns that an action's N numbers x = z + bias are:
 *
 *   QUANTILES     x_i is the quantile of tau_i = (i + 1/2) / N [Dabney et al. 2018, lemma 2]
 *   CATEGORICAL   softmax(x)_i is the probability of the return z_i = v_min + i (v_max - v_min) / (N - 1) [Bellemare et
 *                 al. 2017, section 4]
 *
 * For each head there are four functions: the mean, which is Q(s, a); the distribution of the target r + discount Z',
 * where Z' is a distribution; what is known of a row's distribution before its loss; and the part that one number has
 * of the loss, with its slope.
 */
#pragma once

#include "kernels/args_learn.h"
#include "kernels/target/thread.h"

/* Partial sums of one loop, which a CPU's vector instructions add, and whose loads a GPU's thread has in flight. */
enum { GPUR_ATOM_SUMS = GPUR_WARP == 1 ? 16 : 4 };

GPUR_FN float gpur_sum_of_sums(const float *sums)
{
    float sum = 0.0f;
    for (int s = 0; s < GPUR_ATOM_SUMS; s++)
        sum += sums[s];
    return sum;
}

/* Sum of x (n), or with `bias`, (n), of x + bias. */
GPUR_FN float gpur_sum_of_atoms(int32_t n, const float *x, const float *bias)
{
    float sums[GPUR_ATOM_SUMS] = {0.0f};
    int32_t first = 0;
    for (; first + GPUR_ATOM_SUMS <= n; first += GPUR_ATOM_SUMS)
        for (int s = 0; s < GPUR_ATOM_SUMS; s++)
            sums[s] += bias ? x[first + s] + bias[first + s] : x[first + s];
    for (int s = 0; s < GPUR_ATOM_SUMS; s++) /* constant bounds: a GPU keeps the sums in registers */
        if (first + s < n)
            sums[s] += bias ? x[first + s] + bias[first + s] : x[first + s];
    return gpur_sum_of_sums(sums);
}

/* QUANTILES. */

GPUR_FN float gpur_quantile_mean(int32_t atoms, const float *z, const float *bias)
{
    return gpur_sum_of_atoms(atoms, z, bias) / (float)atoms;
}

/* T theta'_j = r + discount theta'_j [Dabney et al. 2018, eq. 13]. Discount 0 means no bootstrap: 0 times an infinite
 * quantile is NaN. */
GPUR_FN float gpur_quantile_target(float reward, float discount, float quantile)
{
    return discount == 0.0f ? reward : reward + discount * quantile;
}

/*
 * Adds one target's part of the quantile Huber loss of theta, the quantile of tau, which is |tau - [u < 0]| L(u) with
 * u = target - theta [Dabney et al. 2018, eq. 10], where L is Huber's loss over kappa: u^2 / (2 kappa) up to kappa and
 * |u| - kappa / 2 beyond, so that with kappa 0 it is the loss of quantile regression [Dabney et al. 2018b, eq. 3].
 *
 * With x = u / kappa, clipped to -1 to 1, both are x (u - kappa x / 2), and x is the derivative: no branch, so that a
 * CPU computes many targets at once.
 */
GPUR_FN void gpur_quantile_pair(float kappa, float inverse, float tau, float u, float *loss, float *slope)
{
    const float ratio = u * inverse, below = ratio < 1.0f ? ratio : 1.0f, x = below > -1.0f ? below : -1.0f;
    const float weighted = (u < 0.0f ? 1.0f - tau : tau) * x;
    *loss += weighted * (u - 0.5f * kappa * x);
    *slope -= weighted;
}

/* The mean over all targets, and its derivative by theta. */
GPUR_FN float gpur_quantile_loss(int32_t atoms, float kappa, float tau, float theta, const float *__restrict__ target,
                                 float *slope)
{
    const float largest = 3.402823466e+38f, inverse = kappa * largest > 1.0f ? 1.0f / kappa : largest;
    float losses[GPUR_ATOM_SUMS] = {0.0f}, slopes[GPUR_ATOM_SUMS] = {0.0f};
    int32_t first = 0;
    for (; first + GPUR_ATOM_SUMS <= atoms; first += GPUR_ATOM_SUMS)
        for (int s = 0; s < GPUR_ATOM_SUMS; s++)
            gpur_quantile_pair(kappa, inverse, tau, target[first + s] - theta, &losses[s], &slopes[s]);
    for (int s = 0; s < GPUR_ATOM_SUMS; s++)
        if (first + s < atoms)
            gpur_quantile_pair(kappa, inverse, tau, target[first + s] - theta, &losses[s], &slopes[s]);
    *slope = gpur_sum_of_sums(slopes) / (float)atoms;
    return gpur_sum_of_sums(losses) / (float)atoms;
}

/* CATEGORICAL. */

GPUR_FN float gpur_atom_distance(const gpur_distribution *d)
{
    return (d->v_max - d->v_min) / (float)(d->atoms - 1);
}

/* log(sum of exp(x)). The largest is subtracted first, so that no exponential overflows. */
GPUR_FN float gpur_log_sum_exp(int32_t atoms, const float *z, const float *bias)
{
    float largest = z[0] + bias[0], sum = 0.0f;
    for (int32_t i = 1; i < atoms; i++)
        largest = z[i] + bias[i] > largest ? z[i] + bias[i] : largest;
    for (int32_t i = 0; i < atoms; i++)
        sum += expf(z[i] + bias[i] - largest);
    return largest + logf(sum);
}

/* sum of z_i p_i. The probabilities are divided by their sum at the end. */
GPUR_FN float gpur_categorical_mean(const gpur_distribution *d, const float *z, const float *bias)
{
    const float distance = gpur_atom_distance(d);
    float largest = z[0] + bias[0], sum = 0.0f, steps = 0.0f;
    for (int32_t i = 1; i < d->atoms; i++)
        largest = z[i] + bias[i] > largest ? z[i] + bias[i] : largest;
    for (int32_t i = 0; i < d->atoms; i++) {
        const float p = expf(z[i] + bias[i] - largest);
        sum += p;
        steps += p * (float)i;
    }
    return d->v_min + distance * (steps / sum);
}

/* Where on the support, 0 to N - 1, the return lies, which is clipped to it. A NaN becomes 0. */
GPUR_FN float gpur_support_place(const gpur_distribution *d, float value)
{
    const float last = (float)(d->atoms - 1), place = (value - d->v_min) / gpur_atom_distance(d);
    return !(place > 0.0f) ? 0.0f : place < last ? place : last;
}

/* The projection of r + discount Z' onto the support: each probability is divided between the two atoms around its
 * return, by the distances to them [Bellemare et al. 2017, algorithm 1]. On an atom, the last one included, that atom
 * gets all of it. With discount 0 the return is r, and Z' is not read. */
GPUR_FN void gpur_categorical_target(const gpur_distribution *d, float reward, float discount, const float *z,
                                     const float *bias, float *m)
{
    const int32_t returns = discount == 0.0f ? 1 : d->atoms;
    const float log_sum = discount == 0.0f ? 0.0f : gpur_log_sum_exp(d->atoms, z, bias);
    const float distance = gpur_atom_distance(d);
    for (int32_t i = 0; i < d->atoms; i++)
        m[i] = 0.0f;
    for (int32_t j = 0; j < returns; j++) {
        const float p = discount == 0.0f ? 1.0f : expf(z[j] + bias[j] - log_sum);
        const float place = gpur_support_place(d, reward + discount * (d->v_min + (float)j * distance));
        const int32_t below = (int32_t)place;
        const float above = place - (float)below;
        m[below] += p * (1.0f - above);
        if (above > 0.0f)
            m[below + 1] += p * above;
    }
}

/* Atom i's part of the cross-entropy -sum m_i log p_i, and the derivative of the whole by x_i. */
GPUR_FN float gpur_cross_entropy(float x, float log_sum, float m, float *slope)
{
    *slope = expf(x - log_sum) - m;
    return m > 0.0f ? m * (log_sum - x) : 0.0f;
}

/* Both. */

/* The mean of an action's distribution. */
GPUR_FN float gpur_distribution_mean(int32_t head, const gpur_distribution *d, const float *z, const float *bias)
{
    return head == GPUR_HEAD_CATEGORICAL ? gpur_categorical_mean(d, z, bias) : gpur_quantile_mean(d->atoms, z, bias);
}

/* Writes the target's distribution, (N), which the threads of the block share, of the distribution z of the next
 * action. A barrier must follow. */
GPUR_FN void gpur_distribution_target(gpur_thread at, int32_t head, const gpur_distribution *d, float reward,
                                      float discount, const float *z, const float *bias, float *target)
{
    const gpur_span s = gpur_block_span(at, d->atoms);
    if (head != GPUR_HEAD_CATEGORICAL)
        for (int64_t j = s.first; j < s.last; j += s.step)
            target[j] = gpur_quantile_target(reward, discount, discount == 0.0f ? 0.0f : z[j] + bias[j]);
    else if (at.thread == 0) /* an atom may get parts of many others */
        gpur_categorical_target(d, reward, discount, z, bias, target);
}

/* What all numbers of a distribution need for their parts of the loss. */
GPUR_FN float gpur_distribution_prepare(int32_t head, const gpur_distribution *d, const float *z, const float *bias)
{
    return head == GPUR_HEAD_CATEGORICAL ? gpur_log_sum_exp(d->atoms, z, bias) : 0.0f;
}

/* The part that number i, x, has of the loss, and the derivative of the loss by it. */
GPUR_FN float gpur_distribution_loss(int32_t head, const gpur_distribution *d, float kappa, int32_t i, float x,
                                     float prepared, const float *target, float *slope)
{
    const float tau = ((float)i + 0.5f) / (float)d->atoms;
    return head == GPUR_HEAD_CATEGORICAL ? gpur_cross_entropy(x, prepared, target[i], slope)
                                         : gpur_quantile_loss(d->atoms, kappa, tau, x, target, slope);
}
