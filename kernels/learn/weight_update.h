/* SPDX-License-Identifier: MIT */
/*
 * The optimizer's update of all weights, with clipping of the gradient g, and the target copy:
 *
 *   Adam     m = b1 m + (1 - b1) g, v = b2 v + (1 - b2) g^2,
 *            w -= lr m^ / (sqrt(v^) + eps), m^ = m / (1 - b1^t), v^ = v / (1 - b2^t) [Kingma & Ba 2015, algorithm 1];
 *            with correct_rate w -= lr sqrt(1 - b2^t) / (1 - b1^t) m / (sqrt(v) + eps) [end of section 2 there]
 *   RMSProp  v = b v + (1 - b) g^2, w -= lr g / sqrt(v), with what each library adds to it: the formula of each
 *            kind is in gpureplay/optimizer.h
 *
 * Arguments and shapes: gpur_weight_update_args.
 */
#pragma once

#include "kernels/args_learn.h"
#include "kernels/lib/bf16.h"
#include "kernels/lib/fixed_sum.h"
#include "kernels/learn/gradient_norm.h"
#include "kernels/target/thread.h"

/* Numbers that are the same for every weight in this step. */
typedef struct gpur_weight_update_rates {
    float limit;                                        /* of a gradient component: clipping by value */
    float scale;                                        /* of the gradient, so that its global norm is at most
                                                           clip_norm */
    float one_minus_mean_decay, one_minus_square_decay; /* 1 - decay */
    float inner, outer;                                 /* learning rate: on what is added to the velocity, on the
                                                           weight */
    float root_scale;                                   /* ADAM: 1 / sqrt(1 - beta2^t) if v is corrected, else 1 */
} gpur_weight_update_rates;

GPUR_FN gpur_weight_update_rates gpur_weight_update_prepare(gpur_thread at, const gpur_weight_update_args *a)
{
    const gpur_train_state *const state = a->state;
    const float rate = state->next_learning_rate;
    gpur_weight_update_rates r;
    r.limit = a->clip_value > 0.0f ? a->clip_value : INFINITY;
    r.scale = 1.0f;
    if (a->clip_norm > 0.0f) {
        const float norm = sqrtf(gpur_fixed_sum(at, a->partial, a->partials));
        r.scale = norm > a->clip_norm ? a->clip_norm / norm : 1.0f;
    }
    r.one_minus_mean_decay = 1.0f - a->mean_decay;
    r.one_minus_square_decay = 1.0f - a->square_decay;
    r.inner = a->rate_on_weight ? 1.0f : rate;
    r.outer = a->rate_on_weight ? rate : 1.0f;
    r.root_scale = 1.0f;
    if (a->adam) {
        const double root = sqrt(1.0 - state->beta2_power), corrected = (double)rate / (1.0 - state->beta1_power);
        r.outer = (float)(a->correct_rate ? corrected * root : corrected);
        r.root_scale = a->correct_rate ? 1.0f : (float)(1.0 / root);
    }
    return r;
}

GPUR_FN void gpur_weight_update_adam(const gpur_weight_update_args *a, gpur_span s, gpur_weight_update_rates r)
{
    float *__restrict__ const w = a->weights, *__restrict__ const mean = a->mean;
    float *__restrict__ const square = a->square;
    uint16_t *__restrict__ const bf16 = a->bf16;
    const float *__restrict__ const gradient = a->gradient;
    const float mean_decay = a->mean_decay, square_decay = a->square_decay, epsilon = a->epsilon_outside;
    for (int64_t i = s.first; i < s.last; i += s.step) {
        const float g = gpur_clip(gradient[i], r.limit) * r.scale;
        const float m = mean_decay * mean[i] + r.one_minus_mean_decay * g;
        const float v = square_decay * square[i] + r.one_minus_square_decay * g * g;
        mean[i] = m;
        square[i] = v;
        const float next = w[i] - r.outer * m / (sqrtf(v) * r.root_scale + epsilon);
        w[i] = next;
        if (bf16)
            bf16[i] = gpur_bf16_round(next);
    }
}

/* If it is centered, v - m^2 takes the place of v; it
 * is a variance, which rounding must not make negative. `mean` and `velocity` are NULL if they are not used. */
GPUR_FN void gpur_weight_update_rmsprop(const gpur_weight_update_args *a, gpur_span s, gpur_weight_update_rates r)
{
    float *__restrict__ const w = a->weights, *__restrict__ const mean = a->mean;
    float *__restrict__ const square = a->square, *__restrict__ const velocity = a->velocity;
    uint16_t *__restrict__ const bf16 = a->bf16;
    const float *__restrict__ const gradient = a->gradient;
    const float decay = a->square_decay, momentum = a->momentum;
    const float inside = a->epsilon_inside, outside = a->epsilon_outside;
    for (int64_t i = s.first; i < s.last; i += s.step) {
        const float g = gpur_clip(gradient[i], r.limit) * r.scale;
        float v = decay * square[i] + r.one_minus_square_decay * g * g;
        square[i] = v;
        if (mean) {
            const float m = decay * mean[i] + r.one_minus_square_decay * g;
            mean[i] = m;
            v -= m * m;
            v = v > 0.0f ? v : 0.0f;
        }
        float u = r.inner * g / (sqrtf(v + inside) + outside);
        if (velocity) {
            u += momentum * velocity[i];
            velocity[i] = u;
        }
        const float next = w[i] - r.outer * u;
        w[i] = next;
        if (bf16)
            bf16[i] = gpur_bf16_round(next);
    }
}

/* An empty window changes nothing. In the steps that end with one, the hard target copy follows the update [Mnih et
 * al. 2015]. */
GPUR_KERNEL(weight_update)
{
    if (a->window->count == 0)
        return;
    const gpur_span s = gpur_grid_span(at, a->count);
    const gpur_weight_update_rates rates = gpur_weight_update_prepare(at, a);
    if (a->adam)
        gpur_weight_update_adam(a, s, rates);
    else
        gpur_weight_update_rmsprop(a, s, rates);
    if (a->state->copy_due)
        for (int64_t i = s.first; i < s.last; i += s.step)
            a->target[i] = a->weights[i];
    if (a->state->copy_due && a->bf16)
        for (int64_t i = s.first; i < s.last; i += s.step)
            a->target_bf16[i] = a->bf16[i];
}
