/* SPDX-License-Identifier: MIT */
/*
 * Loss of an actor-critic and its gradient, row by row [Babaeizadeh et al. 2017, eq. 1, 2 and 5], with p = softmax(z),
 * or with a floor f (softmax(z) + f) / (1 + f A), the value V and the return R:
 *
 *   L = -log(p_a) (R - V) - beta H(p) + c (R - V)^2,   where R - V of the first term is a constant
 *
 *   ADD       log(p + e),      H = -sum (p + e) log(p + e)     d/dp_k: 1 / (p_a + e),         log(p_k + e) + 1
 *   MAX       log(max(p, e)),  H = -sum p log(max(p, e))       d/dp_k: 1 / p_a if p_a >= e,   log(max(p_k, e)) + 1
 *                                                                                             if p_k >= e, else + 0
 *   SOFTMAX   log(p) = z - log(sum exp(z)),  H = -sum p log(p)
 *
 * The second column is the derivative of log(p_a) and of -H. Arguments and shapes: gpur_actor_critic_loss_args.
 */
#pragma once

#include "kernels/args_learn.h"
#include "kernels/learn/softmax_choice.h"
#include "kernels/lib/schedule.h"
#include "kernels/target/thread.h"

/* log(p) as the loss has it. `log_sum` is that of the logits, which SOFTMAX reads. */
GPUR_FN float gpur_policy_log(const gpur_actor_critic_loss_args *a, float p, float logit, float log_sum)
{
    if (a->log == GPUR_LOG_SOFTMAX)
        return logit - log_sum;
    if (a->log == GPUR_LOG_MAX)
        return logf(p > a->log_epsilon ? p : a->log_epsilon);
    return logf(p + a->log_epsilon);
}

/* d log(p) / dp of ADD and MAX. */
GPUR_FN float gpur_policy_log_slope(const gpur_actor_critic_loss_args *a, float p)
{
    if (a->log == GPUR_LOG_MAX)
        return p >= a->log_epsilon ? 1.0f / p : 0.0f;
    return 1.0f / (p + a->log_epsilon);
}

/* The gradient by p (A) of ADD and MAX. */
GPUR_FN void gpur_policy_gradient_by_p(const gpur_actor_critic_loss_args *a, const float *p, int32_t action,
                                       float advantage, float beta, float *dp)
{
    for (int32_t k = 0; k < a->num_actions; k++) {
        const float slope = gpur_policy_log_slope(a, p[k]);
        const float weight = a->log == GPUR_LOG_MAX ? p[k] : p[k] + a->log_epsilon;
        dp[k] = beta * (gpur_policy_log(a, p[k], 0.0f, 0.0f) + weight * slope);
        if (k == action)
            dp[k] -= advantage * slope;
    }
}

/* The gradient by the logits, through the floor and the softmax s = p (1 + f A) - f. dp is used up. */
GPUR_FN void gpur_policy_gradient_by_z(const gpur_actor_critic_loss_args *a, const float *p, float *dp, float *dz)
{
    const float scale = 1.0f / (1.0f + a->floor * (float)a->num_actions);
    float sum = 0.0f;
    for (int32_t k = 0; k < a->num_actions; k++)
        sum += (p[k] / scale - a->floor) * dp[k];
    for (int32_t k = 0; k < a->num_actions; k++)
        dz[k] = (p[k] / scale - a->floor) * scale * (dp[k] - sum);
}

/* The same of SOFTMAX at once: d(-log p_a) = p - [k = a], and dH / dz_k = -p_k (log p_k + H). */
GPUR_FN void gpur_log_softmax_gradient(const gpur_actor_critic_loss_args *a, const float *p, const float *z,
                                       float log_sum, int32_t action, float advantage, float beta, float entropy,
                                       float *dz)
{
    for (int32_t k = 0; k < a->num_actions; k++) {
        const float log_p = z[k] + a->bias[k] - log_sum;
        dz[k] = advantage * (p[k] - (k == action ? 1.0f : 0.0f)) + beta * p[k] * (log_p + entropy);
    }
}

/* Entropy as the loss has it. */
GPUR_FN float gpur_policy_entropy(const gpur_actor_critic_loss_args *a, const float *p, const float *z, float log_sum)
{
    float sum = 0.0f;
    for (int32_t k = 0; k < a->num_actions; k++) {
        const float weight = a->log == GPUR_LOG_ADD ? p[k] + a->log_epsilon : p[k];
        sum -= weight * gpur_policy_log(a, p[k], z[k] + a->bias[k], log_sum);
    }
    return sum;
}

GPUR_FN void gpur_actor_critic_row(const gpur_actor_critic_loss_args *a, int64_t b, float beta)
{
    const int32_t actions = a->num_actions, action = a->action[b];
    const float *const z = a->z + b * a->z_pitch;
    float *const p = a->p + b * actions, *const dp = a->dp + b * actions, *const dz = a->dz + b * a->z_pitch;
    const float log_sum = gpur_floored_softmax(actions, z, a->bias, a->floor, p);
    const float value = z[actions] + a->bias[actions], advantage = a->returns[b] - value;
    const float entropy = gpur_policy_entropy(a, p, z, log_sum);
    a->results[GPUR_ROW_POLICY_LOSS * a->batch + b] =
        -gpur_policy_log(a, p[action], z[action] + a->bias[action], log_sum) * advantage;
    a->results[GPUR_ROW_VALUE_LOSS * a->batch + b] = advantage * advantage;
    a->results[GPUR_ROW_ENTROPY * a->batch + b] = entropy;
    a->results[GPUR_ROW_VALUE * a->batch + b] = value;
    if (!(a->parts & GPUR_LOSS_OF_POLICY)) {
        for (int32_t k = 0; k < actions; k++)
            dz[k] = 0.0f;
    } else if (a->log == GPUR_LOG_SOFTMAX) {
        gpur_log_softmax_gradient(a, p, z, log_sum, action, advantage, beta, entropy, dz);
    } else {
        gpur_policy_gradient_by_p(a, p, action, advantage, beta, dp);
        gpur_policy_gradient_by_z(a, p, dp, dz);
    }
    dz[actions] = a->parts & GPUR_LOSS_OF_VALUE ? -2.0f * a->value_coefficient * advantage : 0.0f;
}

GPUR_FN void gpur_actor_critic_empty_row(const gpur_actor_critic_loss_args *a, int64_t b)
{
    for (int32_t k = 0; k <= a->num_actions; k++)
        a->dz[b * a->z_pitch + k] = 0.0f;
    for (int32_t i = 0; i < GPUR_ROW_RESULTS; i++)
        a->results[i * a->batch + b] = 0.0f;
}

GPUR_KERNEL(actor_critic_loss)
{
    const gpur_span s = gpur_grid_span(at, a->batch);
    const float beta = gpur_schedule_value(a->entropy_first, a->entropy_last, a->entropy_begin, a->entropy_steps,
                                           (int64_t)a->state->step);
    for (int64_t b = s.first; b < s.last; b += s.step) {
        if (b < *a->count)
            gpur_actor_critic_row(a, b, beta);
        else
            gpur_actor_critic_empty_row(a, b);
    }
}
