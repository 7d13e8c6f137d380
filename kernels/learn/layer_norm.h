/* SPDX-License-Identifier: MIT */
/*
 * Layer normalization of a dense layer [Ba, Kiros & Hinton 2016, section 3.1], forward and backward, row by row. With
 * the layer's sums x = z + bias, their mean m and their variance v over the units of the row,
 *
 *   n = (x - m) / sqrt(v + epsilon), y = activation(gain n + offset)
 *   dx = (dn - mean(dn) - n mean(dn n)) / sqrt(v + epsilon), dn = gain d, where d is the gradient by gain n + offset
 *
 * Backward the row's m and v are computed again, so that forward passes store nothing for it.
 * Arguments and shapes: gpur_layer_norm_args, gpur_layer_norm_backward_args.
 */
#pragma once

#include "kernels/learn/bias_activation.h"
#include "kernels/lib/collective.h"

#define GPUR_LAYER_NORM_EPSILON 1e-5f /* as PyTorch's */

enum { GPUR_UNIT_RUN = GPUR_WARP == 1 ? 16 : 4 }; /* sums of a thread, to which it adds in turn */

/* The units of a row that are normalized together. */
typedef struct gpur_unit_row {
    const float *z, *bias;
    const float *gain, *d; /* of the sums backward; else NULL */
    float mean, scale;     /* m, and 1 / sqrt(v + epsilon) */
    int64_t count;
} gpur_unit_row;

/* What is added up over the units of a row. */
enum { GPUR_SUM_OF_X = 0, GPUR_SUM_OF_SQUARES = 1, GPUR_SUM_OF_DN = 2, GPUR_SUM_OF_PRODUCTS = 3 };

GPUR_FN float gpur_unit_term(const gpur_unit_row *row, int which, int64_t i)
{
    const float x = row->z[i] + row->bias[i], apart = x - row->mean;
    return which == GPUR_SUM_OF_X         ? x
           : which == GPUR_SUM_OF_SQUARES ? apart * apart
           : which == GPUR_SUM_OF_DN      ? row->gain[i] * row->d[i]
                                          : row->gain[i] * row->d[i] * (apart * row->scale);
}

/* The mean of a term over the units, by a warp, in every lane. GPUR_WARP alone fixes the order of additions. */
GPUR_FN float gpur_unit_mean(gpur_thread at, const gpur_unit_row *row, int which)
{
    float sums[GPUR_UNIT_RUN] = {0.0f}, sum = 0.0f;
    int64_t i = gpur_lane(at);
    for (; i + (GPUR_UNIT_RUN - 1) * GPUR_WARP < row->count; i += GPUR_UNIT_RUN * GPUR_WARP)
        for (int r = 0; r < GPUR_UNIT_RUN; r++)
            sums[r] += gpur_unit_term(row, which, i + r * GPUR_WARP);
    for (int r = 0; r < GPUR_UNIT_RUN; r++)
        if (i + r * GPUR_WARP < row->count)
            sums[r] += gpur_unit_term(row, which, i + r * GPUR_WARP);
    for (int r = 0; r < GPUR_UNIT_RUN; r++)
        sum += sums[r];
    return gpur_warp_sum_f32(at, sum) / (float)row->count;
}

/* The row of these sums, with its mean and scale. */
GPUR_FN gpur_unit_row gpur_unit_row_of(gpur_thread at, const float *z, const float *bias, int64_t count)
{
    gpur_unit_row row;
    row.z = z, row.bias = bias, row.gain = row.d = (const float *)0;
    row.count = count;
    row.mean = row.scale = 0.0f;
    row.mean = gpur_unit_mean(at, &row, GPUR_SUM_OF_X);
    row.scale = 1.0f / sqrtf(gpur_unit_mean(at, &row, GPUR_SUM_OF_SQUARES) + GPUR_LAYER_NORM_EPSILON);
    return row;
}

GPUR_KERNEL(layer_norm)
{
    const gpur_span rows = gpur_warp_rows(at, a->batch * a->copies);
    const int32_t activation = a->activation;
    for (int64_t r = rows.first; r < rows.last; r += rows.step) {
        const int64_t column = r % a->copies * a->units, first = r / a->copies * a->pitch + column;
        const gpur_unit_row row = gpur_unit_row_of(at, a->z + first, a->bias + column, a->units);
        const float *__restrict__ const gain = a->gain + column, *__restrict__ const offset = a->offset + column;
        float *__restrict__ const y = a->y + first;
        for (int64_t i = gpur_lane(at); i < row.count; i += GPUR_WARP)
            y[i] = gpur_activate((row.z[i] + row.bias[i] - row.mean) * row.scale * gain[i] + offset[i], activation);
    }
}

/* In place: a lane has read the units that it writes, and the sums over all of them are there. */
GPUR_KERNEL(layer_norm_backward)
{
    const gpur_span rows = gpur_warp_rows(at, a->batch * a->copies);
    for (int64_t r = rows.first; r < rows.last; r += rows.step) {
        const int64_t column = r % a->copies * a->units, first = r / a->copies * a->pitch + column;
        gpur_unit_row row = gpur_unit_row_of(at, a->z + first, a->bias + column, a->units);
        float *const d = a->d + first;
        row.gain = a->gain + column, row.d = d;
        const float mean = gpur_unit_mean(at, &row, GPUR_SUM_OF_DN);
        const float product = gpur_unit_mean(at, &row, GPUR_SUM_OF_PRODUCTS);
        for (int64_t i = gpur_lane(at); i < row.count; i += GPUR_WARP) {
            const float n = (row.z[i] + row.bias[i] - row.mean) * row.scale, by_gain = d[i] * n;
            d[i] = (row.gain[i] * d[i] - mean - n * product) * row.scale;
            if (a->by_gain)
                a->by_gain[first + i] = by_gain;
        }
    }
}
