/* SPDX-License-Identifier: MIT */
/*
 * TD error, loss and gradient of DQN, row by row:
 *
 *   y = r + discount Q_target(s', a*), with a* = argmax_a Q_target(s', a) [Mnih et al. 2015, algorithm 1], or
 *       a* = argmax_a Q(s', a) for double DQN [van Hasselt, Guez & Silver 2016, eq. 4]; with a mask a* is the best of
 *       the allowed actions, and if there is none y = r
 *       or a given return
 *   d = Q(s, a) - y, and the loss is L(d): d^2 / 2, or Huber's, which is linear beyond delta [Huber 1964]
 *   dQ(s, a) = w L'(d) / B, with the importance weight w of the row
 *
 * Arguments and shapes: gpur_td_error_args.
 */
#pragma once

#include "kernels/args_learn.h"
#include "kernels/learn/head.h"
#include "kernels/target/thread.h"

/* Loss of an error d = Q - y, and its derivative. Huber: d^2 / 2 up to delta, delta (|d| - delta / 2) beyond [Huber
 * 1964]. */
GPUR_FN float gpur_td_loss(const gpur_td_error_args *a, float d, float *slope)
{
    const float size = fabsf(d), delta = a->huber_delta;
    *slope = d;
    if (a->loss_kind || size <= delta)
        return 0.5f * d * d;
    *slope = d > 0.0f ? delta : -delta;
    return delta * (size - 0.5f * delta);
}

/* The row's action, or -1 if the network has no such action. */
GPUR_FN int64_t gpur_td_action(const gpur_td_error_args *a, int64_t b)
{
    const int64_t k = a->action_is_int64 ? ((const int64_t *)a->action)[b] : ((const int32_t *)a->action)[b];
    return k >= 0 && k < a->num_actions ? k : -1;
}

/* The action with the largest value, the first of several equal ones. */
GPUR_FN int32_t gpur_best_action(int32_t outputs, gpur_values values)
{
    float largest = gpur_value(values, 0);
    int32_t best = 0;
    for (int32_t k = 1; k < outputs; k++) {
        const float value = gpur_value(values, k);
        best = value > largest ? k : best;
        largest = value > largest ? value : largest;
    }
    return best;
}

/* The same of the allowed actions; -1: none is allowed. */
GPUR_FN int32_t gpur_best_allowed(int32_t outputs, gpur_values values, const unsigned char *mask)
{
    float largest = 0.0f;
    int32_t best = -1;
    for (int32_t k = 0; k < outputs; k++) {
        const float value = gpur_value(values, k);
        const int is_better = gpur_is_allowed(mask, k) && (best < 0 || value > largest);
        best = is_better ? k : best;
        largest = is_better ? value : largest;
    }
    return best;
}

/* Writes the action values of both networks on next_obs. Returns the target y. `mask`: of the next actions of row b;
 * NULL: all are allowed. */
GPUR_FN float gpur_td_target(const gpur_td_error_args *a, int64_t b, const unsigned char *mask)
{
    const int64_t row = (a->batch + b) * a->num_actions, z_row = (a->batch + b) * a->z_pitch;
    const float reward = a->reward[b], discount = a->discount ? a->discount[b] : 0.0f;
    if (!a->discount)
        return reward;
    const gpur_values target = gpur_values_of(a->head, a->num_actions, a->z_target + b * a->z_pitch, a->bias_target);
    const gpur_values next = a->double_dqn ? gpur_values_of(a->head, a->num_actions, a->z + z_row, a->bias) : target;
    const int32_t best = mask ? gpur_best_allowed(a->num_actions, next, mask) : gpur_best_action(a->num_actions, next);
    const float value = gpur_value(target, mask && best < 0 ? 0 : best);
    gpur_values_write(a->num_actions, target, a->q_target + b * a->num_actions);
    if (a->double_dqn)
        gpur_values_write(a->num_actions, next, a->q + row);
    /* Discount 0 means no bootstrap, as after a terminal transition. Return without the product: 0 times an infinite
     * Q is NaN. */
    return discount == 0.0f || (mask && best < 0) ? reward : reward + discount * value;
}

/* Writes the gradient of the loss of row b with respect to the action values, which is `slope` for the action and else
 * 0, and with respect to z. */
GPUR_FN void gpur_td_backward(const gpur_td_error_args *a, int64_t b, int64_t action, float slope)
{
    float *const dq = a->dq + b * a->num_actions, *const dz = a->dz + b * a->z_pitch;
    const int is_dueling = a->head == GPUR_HEAD_DUELING;
    const float mean = is_dueling ? slope / (float)a->num_actions : 0.0f;
    if (is_dueling)
        dz[0] = slope;
    for (int32_t k = 0; k < a->num_actions; k++) {
        dq[k] = k == action ? slope : 0.0f;
        dz[is_dueling + k] = (k == action ? slope : 0.0f) - mean;
    }
}

/* Everything for row b, from the networks' outputs to the gradient of the loss with respect to them. A GPU's thread
 * mostly waits for memory, and so loads do not come between stores, which they would have to wait for. */
GPUR_FN void gpur_td_error_row(const gpur_td_error_args *a, int64_t b, const unsigned char *mask)
{
    const int64_t action = gpur_td_action(a, b);
    const int is_missing = a->id && a->id[b] < 0, is_trained = action >= 0 && !is_missing;
    const float weight = a->weight[b];
    const gpur_values online = gpur_values_of(a->head, a->num_actions, a->z + b * a->z_pitch, a->bias);
    const float q = gpur_value(online, action < 0 ? 0 : action), d = q - gpur_td_target(a, b, mask);
    float slope;
    const float loss = weight * gpur_td_loss(a, d, &slope);
    gpur_values_write(a->num_actions, online, a->q + b * a->num_actions);
    a->invalid[b] = action < 0 ? 1.0f : 0.0f;
    a->loss[b] = is_trained ? loss : 0.0f;
    a->td[b] = is_trained ? fabsf(d) : 0.0f;
    a->q_taken[b] = is_trained ? q : 0.0f;
    if (a->missing)
        a->missing[b] = is_missing ? 1.0f : 0.0f;
    gpur_td_backward(a, b, action, is_trained ? weight * slope / (float)a->batch : 0.0f);
}

GPUR_FN const unsigned char *gpur_next_mask(const gpur_td_error_args *a, int64_t b)
{
    return a->next_mask ? a->next_mask + b * gpur_mask_bytes(a->num_actions) : NULL;
}

GPUR_KERNEL(td_error)
{
    const gpur_span s = gpur_grid_span(at, a->batch);
    for (int64_t b = s.first; b < s.last; b += s.step)
        gpur_td_error_row(a, b, gpur_next_mask(a, b));
}
