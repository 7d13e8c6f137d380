/* SPDX-License-Identifier: MIT */
/*
 * The heads of a network, forward and backward for one row, and their kernels:
 *
 *   Q              Q(s, a) = z_a + bias_a
 *   dueling        Q(s, a) = V(s) + A(s, a) - mean_a A(s, a) [Wang et al. 2016, eq. 9]; the mean is over the actions of
 *                  this row alone
 *   softmax-value  p = softmax(z + bias), and the value as it is
 *
 * Arguments and shapes: gpur_head_forward_args, gpur_head_backward_args.
 */
#pragma once

#include "kernels/args_learn.h"
#include "kernels/lib/allowed.h"
#include "kernels/target/thread.h"

/* Columns of a head's output. */
GPUR_FN int32_t gpur_head_width(int32_t head, int32_t outputs)
{
    return head == GPUR_HEAD_SOFTMAX_VALUE ? outputs + 1 : outputs;
}

/* Gradient of the dueling head: dV = sum dQ, dA_k = dQ_k - mean dQ. */
GPUR_FN void gpur_dueling_backward(int32_t outputs, const float *__restrict__ dy, float *__restrict__ dz)
{
    float sum = 0.0f;
    for (int32_t k = 0; k < outputs; k++)
        sum += dy[k];
    const float mean = sum / (float)outputs;
    dz[0] = sum;
    for (int32_t k = 0; k < outputs; k++)
        dz[1 + k] = dy[k] - mean;
}

/* The probabilities p (A) of a row, from logits z; `floor` as in gpur_softmax_choice_args (0: none). The largest logit
 * is subtracted first, so that no exponential overflows. Returns log(sum of exp(z)) of the unfloored ones. */
GPUR_FN float gpur_floored_softmax(int32_t outputs, const float *z, const float *bias, float floor, float *p)
{
    float largest = z[0] + bias[0], sum = 0.0f;
    for (int32_t k = 1; k < outputs; k++)
        largest = z[k] + bias[k] > largest ? z[k] + bias[k] : largest;
    for (int32_t k = 0; k < outputs; k++) {
        p[k] = expf(z[k] + bias[k] - largest);
        sum += p[k];
    }
    const float scale = 1.0f / (1.0f + floor * (float)outputs);
    for (int32_t k = 0; k < outputs; k++)
        p[k] = (p[k] / sum + floor) * scale;
    return largest + logf(sum);
}

/* Probabilities, and the value as it is. */
GPUR_FN void gpur_softmax_forward(int32_t outputs, const float *z, const float *bias, float *y)
{
    gpur_floored_softmax(outputs, z, bias, 0.0f, y);
    y[outputs] = z[outputs] + bias[outputs];
}

/* Gradient of the softmax: dz_k = p_k (dp_k - sum_j p_j dp_j). The gradient of the value is copied. */
GPUR_FN void gpur_softmax_backward(int32_t outputs, const float *y, const float *dy, float *dz)
{
    float sum = 0.0f;
    for (int32_t k = 0; k < outputs; k++)
        sum += y[k] * dy[k];
    for (int32_t k = 0; k < outputs; k++)
        dz[k] = y[k] * (dy[k] - sum);
    dz[outputs] = dy[outputs];
}

/*
 * Action values of a Q head or a dueling head, the two heads that a DQN can have: where those of a row are read. A
 * kernel for DQN uses these functions and so does not contain the code of the other heads. A value that is needed twice
 * is computed twice: to load it after it was stored takes a GPU longer.
 */
typedef struct gpur_values {
    const float *z, *bias; /* of the first action */
    float rest;            /* V - mean A of a dueling head, else 0 */
} gpur_values;

GPUR_FN float gpur_value(gpur_values values, int64_t action)
{
    return values.z[action] + values.bias[action] + values.rest;
}

GPUR_FN gpur_values gpur_values_of(int32_t head, int32_t outputs, const float *z, const float *bias)
{
    gpur_values values = {z, bias, 0.0f};
    float sum = 0.0f;
    if (head != GPUR_HEAD_DUELING)
        return values;
    for (int32_t k = 1; k <= outputs; k++)
        sum += z[k] + bias[k];
    values.z = z + 1, values.bias = bias + 1;
    values.rest = z[0] + bias[0] - sum / (float)outputs;
    return values;
}

/* Writes all values to y. A GPU's thread loads several before it stores them. */
GPUR_FN void gpur_values_write(int32_t outputs, gpur_values values, float *y)
{
    enum { RUN = GPUR_WARP == 1 ? 1 : 4 };
    for (int32_t first = 0; first < outputs; first += RUN) {
        float x[RUN];
        for (int32_t k = 0; k < RUN; k++)
            x[k] = gpur_value(values, first + k < outputs ? first + k : first);
        for (int32_t k = 0; k < RUN && first + k < outputs; k++)
            y[first + k] = x[k];
    }
}

GPUR_FN void gpur_values_forward_row(int32_t head, int32_t outputs, const float *z, const float *bias, float *y)
{
    gpur_values_write(outputs, gpur_values_of(head, outputs, z, bias), y);
}

GPUR_FN void gpur_values_backward_row(int32_t head, int32_t outputs, const float *__restrict__ dy,
                                      float *__restrict__ dz)
{
    if (head == GPUR_HEAD_DUELING)
        gpur_dueling_backward(outputs, dy, dz);
    else
        for (int32_t k = 0; k < outputs; k++)
            dz[k] = dy[k];
}

GPUR_FN void gpur_head_forward_row(int32_t head, int32_t outputs, const float *z, const float *bias, float *y)
{
    if (head == GPUR_HEAD_SOFTMAX_VALUE)
        gpur_softmax_forward(outputs, z, bias, y);
    else if (head == GPUR_HEAD_TANH_ACTION)
        for (int32_t k = 0; k < outputs; k++)
            y[k] = tanhf(z[k] + bias[k]);
    else
        gpur_values_forward_row(head, outputs, z, bias, y);
}

GPUR_FN void gpur_head_backward_row(int32_t head, int32_t outputs, const float *y, const float *dy, float *dz)
{
    if (head == GPUR_HEAD_SOFTMAX_VALUE)
        gpur_softmax_backward(outputs, y, dy, dz);
    else if (head == GPUR_HEAD_TANH_ACTION)
        for (int32_t k = 0; k < outputs; k++)
            dz[k] = dy[k] * (1.0f - y[k] * y[k]);
    else
        gpur_values_backward_row(head, outputs, dy, dz);
}

/* The probabilities of the allowed actions among themselves, as gpur_floored_softmax computes them; those of others are
 * 0. At least one action must be allowed. */
GPUR_FN void gpur_masked_softmax(int32_t outputs, const float *z, const float *bias, float floor,
                                 const unsigned char *mask, float *p)
{
    const int32_t first = gpur_find_allowed(outputs, mask, 0);
    float largest = z[first] + bias[first], sum = 0.0f;
    for (int32_t k = first + 1; k < outputs; k++)
        largest = gpur_is_allowed(mask, k) && z[k] + bias[k] > largest ? z[k] + bias[k] : largest;
    for (int32_t k = 0; k < outputs; k++) {
        p[k] = gpur_is_allowed(mask, k) ? expf(z[k] + bias[k] - largest) : 0.0f;
        sum += p[k];
    }
    const float scale = 1.0f / (1.0f + floor * (float)gpur_count_allowed(outputs, mask));
    for (int32_t k = 0; k < outputs; k++)
        p[k] = gpur_is_allowed(mask, k) ? (p[k] / sum + floor) * scale : 0.0f;
}

/* argmax_k y_k over the allowed actions, the first of several equal ones; -1: none is allowed. */
GPUR_FN int32_t gpur_argmax_allowed(int32_t outputs, const float *y, const unsigned char *mask)
{
    int32_t best = -1;
    for (int32_t k = 0; k < outputs; k++)
        if (gpur_is_allowed(mask, k) && (best < 0 || y[k] > y[best]))
            best = k;
    return best;
}

/* argmax_k y_k, the first of several equal ones. */
GPUR_FN int32_t gpur_argmax_action(int32_t outputs, const float *y)
{
    int32_t best = 0;
    for (int32_t k = 1; k < outputs; k++)
        if (y[k] > y[best])
            best = k;
    return best;
}

GPUR_KERNEL(head_forward)
{
    const gpur_span s = gpur_grid_span(at, a->batch);
    for (int64_t b = s.first; b < s.last; b += s.step)
        gpur_head_forward_row(a->head, a->num_actions, a->z + b * a->z_pitch, a->bias, a->y + b * a->y_pitch);
}

GPUR_KERNEL(head_backward)
{
    const gpur_span s = gpur_grid_span(at, a->batch);
    const int64_t width = gpur_head_width(a->head, a->num_actions);
    for (int64_t b = s.first; b < s.last; b += s.step)
        gpur_head_backward_row(a->head, a->num_actions, a->y + b * width, a->dy + b * width, a->dz + b * a->dz_pitch);
}
