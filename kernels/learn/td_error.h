/* SPDX-License-Identifier: MIT */
/*
 * TD error, loss and gradient of DQN, row by row:
 *
 *   y = r + discount Q_target(s', a*), with a* = argmax_a Q_target(s', a) [Mnih et al. 2015, algorithm 1], or
 *       a* = argmax_a Q(s', a) for double DQN [van Hasselt, Guez & Silver 2016, eq. 4]
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

/* The target y. */
GPUR_FN float gpur_td_target(const gpur_td_error_args *a, int64_t b)
{
    if (!a->discount)
        return a->reward[b];
    float *const q_target = a->q_target + b * a->num_actions;
    float *const q_next = a->double_dqn ? a->q + (a->batch + b) * a->num_actions : q_target;
    gpur_values_forward_row(a->head, a->num_actions, a->z_target + b * a->z_pitch, a->bias_target, q_target);
    if (a->double_dqn)
        gpur_values_forward_row(a->head, a->num_actions, a->z + (a->batch + b) * a->z_pitch, a->bias, q_next);
    /* Discount 0 means no bootstrap, as after a terminal transition. Return without the product: 0 times an infinite
     * Q is NaN. */
    if (a->discount[b] == 0.0f)
        return a->reward[b];
    return a->reward[b] + a->discount[b] * q_target[gpur_argmax_action(a->num_actions, q_next)];
}

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

/* Loss of row b, and its gradient with respect to q (A); dq (A) holds zeros before. */
GPUR_FN void gpur_td_row(const gpur_td_error_args *a, int64_t b, const float *q, float *dq)
{
    const int64_t action = gpur_td_action(a, b);
    const float y = gpur_td_target(a, b);
    const int is_missing = a->id && a->id[b] < 0;
    a->invalid[b] = action < 0 ? 1.0f : 0.0f;
    a->loss[b] = a->td[b] = a->q_taken[b] = 0.0f;
    if (a->missing)
        a->missing[b] = is_missing ? 1.0f : 0.0f;
    if (action < 0 || is_missing)
        return;
    float slope;
    const float d = q[action] - y;
    a->loss[b] = a->weight[b] * gpur_td_loss(a, d, &slope);
    a->td[b] = fabsf(d);
    a->q_taken[b] = q[action];
    dq[action] = a->weight[b] * slope / (float)a->batch;
}

/* Everything for row b, from the networks' outputs to the gradient of the loss with respect to them. */
GPUR_FN void gpur_td_error_row(const gpur_td_error_args *a, int64_t b)
{
    float *const q = a->q + b * a->num_actions, *const dq = a->dq + b * a->num_actions;
    gpur_values_forward_row(a->head, a->num_actions, a->z + b * a->z_pitch, a->bias, q);
    for (int32_t k = 0; k < a->num_actions; k++)
        dq[k] = 0.0f;
    gpur_td_row(a, b, q, dq);
    gpur_values_backward_row(a->head, a->num_actions, dq, a->dz + b * a->z_pitch);
}

GPUR_KERNEL(td_error)
{
    const gpur_span s = gpur_grid_span(at, a->batch);
    for (int64_t b = s.first; b < s.last; b += s.step)
        gpur_td_error_row(a, b);
}
