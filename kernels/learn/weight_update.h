/* SPDX-License-Identifier: MIT */
/*
 * The optimizer's update of all weights, with clipping of the gradient g, and the target copy:
 *
 *   Adam     m = b1 m + (1 - b1) g, v = b2 v + (1 - b2) g^2,
 *            w -= lr m^ / (sqrt(v^) + eps), m^ = m / (1 - b1^t), v^ = v / (1 - b2^t) [Kingma & Ba 2015, algorithm 1];
 *            with correct_rate w -= lr sqrt(1 - b2^t) / (1 - b1^t) m / (sqrt(v) + eps) [end of section 2 there];
 *            with weight_decay w -= lr weight_decay w, too [Loshchilov & Hutter 2019, algorithm 2]
 *   RMSProp  v = b v + (1 - b) g^2, w -= lr g / sqrt(v), with what each library adds to it: the formula of each
 *            kind is in gpureplay/optimizer.h
 *
 * Arguments and shapes: gpur_weight_update_args.
 */
#pragma once

#include "kernels/args_learn.h"
#include "kernels/lib/bf16.h"
#include "kernels/lib/clip.h"
#include "kernels/lib/fixed_sum.h"
#include "kernels/lib/quad.h"
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
    float decay;                                        /* ADAM: learning rate times weight_decay */
    int32_t copy_due;                                   /* 1: the step ends with a copy to the target */
    int32_t copy_is_soft;                               /* 1: then the target only comes nearer to the new weights */
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
    r.decay = rate * a->weight_decay;
    r.copy_due = state->copy_due;
    r.copy_is_soft = a->target_rate < 1.0f;
    if (a->adam) {
        const double root = sqrt(1.0 - state->beta2_power), corrected = (double)rate / (1.0 - state->beta1_power);
        r.outer = (float)(a->correct_rate ? corrected * root : corrected);
        r.root_scale = a->correct_rate ? 1.0f : (float)(1.0 / root);
    }
    return r;
}

/* The new value of the weight w with gradient g. */
GPUR_FN float gpur_weight_update_adam(const gpur_weight_update_args *a, const gpur_weight_update_rates *r, float w,
                                      float g, float *mean, float *square)
{
    g = gpur_clip(g, r->limit) * r->scale;
    *mean = a->mean_decay * *mean + r->one_minus_mean_decay * g;
    *square = a->square_decay * *square + r->one_minus_square_decay * g * g;
    float u = r->outer * *mean / (sqrtf(*square) * r->root_scale + a->epsilon_outside);
    if (r->decay > 0.0f)
        u += r->decay * w;
    return w - u;
}

/* The same. If it is centered, v - m^2 takes the place of v; it is a variance, which rounding must not make negative.
 * `mean` and `velocity` are read only with has_mean and has_velocity. */
GPUR_FN float gpur_weight_update_rmsprop(const gpur_weight_update_args *a, const gpur_weight_update_rates *r, float w,
                                         float g, float *mean, float *square, float *velocity, int has_mean,
                                         int has_velocity)
{
    g = gpur_clip(g, r->limit) * r->scale;
    *square = a->square_decay * *square + r->one_minus_square_decay * g * g;
    float v = *square;
    if (has_mean) {
        *mean = a->square_decay * *mean + r->one_minus_square_decay * g;
        v -= *mean * *mean;
        v = v > 0.0f ? v : 0.0f;
    }
    float u = r->inner * g / (sqrtf(v + a->epsilon_inside) + a->epsilon_outside);
    if (has_velocity) {
        u += a->momentum * *velocity;
        *velocity = u;
    }
    return w - r->outer * u;
}

/* Weights one by one. A CPU's compiler vectorizes these loops, if it knows which arrays there are. */
GPUR_FN void gpur_weight_update_adam_span(const gpur_weight_update_args *a, gpur_span s,
                                          const gpur_weight_update_rates *r)
{
    float *__restrict__ const w = a->weights, *__restrict__ const mean = a->mean;
    float *__restrict__ const square = a->square;
    const float *__restrict__ const gradient = a->gradient;
    for (int64_t i = s.first; i < s.last; i += s.step) {
        float m = mean[i], v = square[i];
        w[i] = gpur_weight_update_adam(a, r, w[i], gradient[i], &m, &v);
        mean[i] = m, square[i] = v;
    }
}

GPUR_FN void gpur_weight_update_rmsprop_span(const gpur_weight_update_args *a, gpur_span s,
                                             const gpur_weight_update_rates *r, int has_mean, int has_velocity)
{
    float *__restrict__ const w = a->weights, *__restrict__ const mean = a->mean;
    float *__restrict__ const square = a->square, *__restrict__ const velocity = a->velocity;
    const float *__restrict__ const gradient = a->gradient;
    for (int64_t i = s.first; i < s.last; i += s.step) {
        float m = has_mean ? mean[i] : 0.0f, v = square[i], u = has_velocity ? velocity[i] : 0.0f;
        w[i] = gpur_weight_update_rmsprop(a, r, w[i], gradient[i], &m, &v, &u, has_mean, has_velocity);
        square[i] = v;
        if (has_mean)
            mean[i] = m;
        if (has_velocity)
            velocity[i] = u;
    }
}

/* The target that came nearer to the weight w. */
GPUR_FN float gpur_weight_update_soft(const gpur_weight_update_args *a, float target, float w)
{
    return target + a->target_rate * (w - target);
}

/* The copy to the target. */
GPUR_FN void gpur_weight_update_target_span(const gpur_weight_update_args *a, gpur_span s, int is_soft)
{
    float *__restrict__ const target = a->target;
    const float *__restrict__ const w = a->weights;
    for (int64_t i = s.first; is_soft && i < s.last; i += s.step)
        target[i] = gpur_weight_update_soft(a, target[i], w[i]);
    for (int64_t i = s.first; !is_soft && i < s.last; i += s.step)
        target[i] = w[i];
    for (int64_t i = s.first; a->bf16 && i < s.last; i += s.step)
        a->target_bf16[i] = gpur_bf16_round(target[i]);
}

GPUR_FN void gpur_weight_update_span(const gpur_weight_update_args *a, gpur_span s, gpur_weight_update_rates r)
{
    const gpur_weight_update_args copy = *a; /* no store to an array can change it */
    if (a->adam)
        gpur_weight_update_adam_span(&copy, s, &r);
    else if (gpur_is_parallel())
        gpur_weight_update_rmsprop_span(&copy, s, &r, a->mean != NULL, a->velocity != NULL);
    else if (a->mean && a->velocity)
        gpur_weight_update_rmsprop_span(&copy, s, &r, 1, 1);
    else if (a->mean)
        gpur_weight_update_rmsprop_span(&copy, s, &r, 1, 0);
    else
        gpur_weight_update_rmsprop_span(&copy, s, &r, 0, a->velocity != NULL);
    for (int64_t i = s.first; a->bf16 && i < s.last; i += s.step)
        a->bf16[i] = gpur_bf16_round(a->weights[i]);
    if (r.copy_due)
        gpur_weight_update_target_span(&copy, s, r.copy_is_soft);
}

GPUR_FN void gpur_store_rounded_quad(uint16_t *to, const float *from)
{
    uint16_t rounded[4];
    for (int k = 0; k < 4; k++)
        rounded[k] = gpur_bf16_round(from[k]);
    memcpy(__builtin_assume_aligned((unsigned char *)to, sizeof rounded), rounded, sizeof rounded);
}

/* Weights i to i + 3: all loads come first, so that they wait for memory together. */
GPUR_FN void gpur_weight_update_quad(const gpur_weight_update_args *a, int64_t i, const gpur_weight_update_rates *r)
{
    float g[4], w[4], square[4], mean[4] = {0}, velocity[4] = {0}, target[4];
    const int copies_softly = r->copy_due && r->copy_is_soft;
    gpur_load_quad(g, a->gradient + i);
    gpur_load_quad(w, a->weights + i);
    gpur_load_quad(square, a->square + i);
    if (a->mean)
        gpur_load_quad(mean, a->mean + i);
    if (a->velocity)
        gpur_load_quad(velocity, a->velocity + i);
    if (copies_softly)
        gpur_load_quad(target, a->target + i);
    for (int k = 0; k < 4; k++)
        w[k] = a->adam ? gpur_weight_update_adam(a, r, w[k], g[k], &mean[k], &square[k])
                       : gpur_weight_update_rmsprop(a, r, w[k], g[k], &mean[k], &square[k], &velocity[k],
                                                    a->mean != NULL, a->velocity != NULL);
    gpur_store_quad(a->weights + i, w);
    gpur_store_quad(a->square + i, square);
    if (a->mean)
        gpur_store_quad(a->mean + i, mean);
    if (a->velocity)
        gpur_store_quad(a->velocity + i, velocity);
    if (a->bf16)
        gpur_store_rounded_quad(a->bf16 + i, w);
    for (int k = 0; k < 4; k++)
        target[k] = copies_softly ? gpur_weight_update_soft(a, target[k], w[k]) : w[k];
    if (r->copy_due)
        gpur_store_quad(a->target + i, target);
    if (r->copy_due && a->bf16)
        gpur_store_rounded_quad(a->target_bf16 + i, target);
}

/* 1: a thread should update four weights at a time, since the target is a GPU and all arrays are aligned for it. */
GPUR_FN int gpur_weight_update_in_quads(const gpur_weight_update_args *a)
{
    const uintptr_t wide = (uintptr_t)a->weights | (uintptr_t)a->target | (uintptr_t)a->gradient | (uintptr_t)a->mean |
                           (uintptr_t)a->square | (uintptr_t)a->velocity;
    return gpur_is_parallel() && (wide | 2 * ((uintptr_t)a->bf16 | (uintptr_t)a->target_bf16)) % 16 == 0;
}

/* Without a row to draw nothing changes. In the steps that end with one, the target copy follows the update: target = w
 * [Mnih et al. 2015], or target += target_rate (w - target) [Lillicrap et al. 2016, algorithm 1]. */
GPUR_KERNEL(weight_update)
{
    if (*a->drawable == 0)
        return;
    const gpur_weight_update_rates rates = gpur_weight_update_prepare(at, a);
    const int64_t quads = gpur_weight_update_in_quads(a) ? a->count / 4 : 0;
    const gpur_span s = gpur_grid_span(at, quads);
    gpur_span rest = gpur_grid_span(at, a->count - 4 * quads);
    for (int64_t i = s.first; i < s.last; i += s.step)
        gpur_weight_update_quad(a, 4 * i, &rates);
    rest.first += 4 * quads, rest.last += 4 * quads;
    gpur_weight_update_span(a, rest, rates);
}
