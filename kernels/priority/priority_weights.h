/* SPDX-License-Identifier: MIT */
/* Importance weights w = (N P)^-beta with P = leaf / total, normalized [Schaul et al. 2016, section 3.4]. Arguments
 * and shapes: gpur_priority_weights_args. */
#pragma once

#include "kernels/lib/schedule.h"
#include "kernels/priority/tree.h"

/* Minimum over the batch's non-zero leaves, minus 1; UINT32_MAX if all are 0. That leaf's row has the largest weight.
 */
GPUR_FN uint32_t gpur_batch_min_leaf(gpur_thread at, const gpur_priority_weights_args *a)
{
    const gpur_span span = gpur_block_span(at, a->batch);
    uint32_t smallest = UINT32_MAX;
    for (int64_t b = span.first; b < span.last; b += span.step) {
        const uint32_t x = a->leaf[b] - 1;
        smallest = x < smallest ? x : smallest;
    }
    return gpur_block_min_u32(at, smallest);
}

/* The numerator of w = (numerator / leaf)^beta: the smallest non-zero leaf of the batch or of the memory, so that the
 * largest w is 1; without normalization total / N. */
GPUR_FN double gpur_weight_numerator(gpur_thread at, const gpur_priority_weights_args *a)
{
    if (a->norm == GPUR_WEIGHT_NORM_BATCH)
        return (double)gpur_batch_min_leaf(at, a) + 1.0;
    if (a->norm == GPUR_WEIGHT_NORM_MEMORY)
        return (double)a->tree.min_leaf[a->tree.levels - 1][0] + 1.0;
    return *a->rows > 0 ? (double)gpur_tree_total(&a->tree) / (double)*a->rows : 0.0;
}

GPUR_FN float gpur_weight_beta(const gpur_priority_weights_args *a)
{
    const int64_t step = (int64_t)(a->step ? *a->step : a->step_value);
    return gpur_schedule_value(a->beta_first, a->beta_last, a->beta_begin, a->beta_steps, step);
}

GPUR_FN float gpur_weight_of(int64_t id, uint32_t leaf, double numerator, float beta)
{
    const float weight = leaf == 0 ? 1.0f : (float)gpur_power(numerator / (double)(leaf == 0 ? 1 : leaf), (double)beta);
    return id < 0 ? 0.0f : weight;
}

GPUR_KERNEL(priority_weights)
{
    const gpur_span span = gpur_grid_span(at, a->batch);
    const float beta = gpur_weight_beta(a);
    const double numerator = gpur_weight_numerator(at, a);
    for (int64_t b = span.first; b < span.last; b += span.step)
        a->weight[b] = gpur_weight_of(a->id[b], a->leaf[b], numerator, beta);
}
