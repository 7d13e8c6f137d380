/* SPDX-License-Identifier: MIT */
/*
 * The mean Q of a distribution's numbers x, and its gradient by them: 1 / N of QUANTILES, and p_i (z_i - Q) of
 * CATEGORICAL, with p = softmax(x) and the returns z_i. Arguments and shapes: gpur_distribution_slope_args.
 */
#pragma once

#include "kernels/learn/distribution.h"

/* Writes the gradient of the mean q, (N). */
GPUR_FN void gpur_distribution_slopes(int32_t head, const gpur_distribution *d, const float *z, const float *bias,
                                      float q, float *dz)
{
    const float log_sum = gpur_distribution_prepare(head, d, z, bias);
    for (int32_t i = 0; i < d->atoms; i++)
        dz[i] = head == GPUR_HEAD_CATEGORICAL
                    ? expf(z[i] + bias[i] - log_sum) * (d->v_min + (float)i * gpur_atom_distance(d) - q)
                    : 1.0f / (float)d->atoms;
}

GPUR_FN void gpur_distribution_slope_row(const gpur_distribution_slope_args *a, int64_t b)
{
    const gpur_distribution *const d = &a->distribution;
    const float *const z = a->z + b * a->z_pitch;
    a->q[b] = gpur_distribution_mean(a->head, d, z, a->bias);
    gpur_distribution_slopes(a->head, d, z, a->bias, a->q[b], a->dz + b * a->z_pitch);
}

GPUR_KERNEL(distribution_slope)
{
    const gpur_span s = gpur_grid_span(at, a->batch);
    for (int64_t b = s.first; b < s.last; b += s.step)
        gpur_distribution_slope_row(a, b);
}
