/* SPDX-License-Identifier: MIT */
/* Optimisers. */
#ifndef GPUREPLAY_OPTIMIZER_H
#define GPUREPLAY_OPTIMIZER_H

#include "gpureplay/schedule.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Optimisers, each as its namesake computes it; g is the gradient, w the weight, t counts from 1.
 *   ADAM              m, v with bias correction; w -= lr m^ / (sqrt(v^) + eps)      [Kingma & Ba 2015, algorithm 1]
 *   RMSPROP_TF        v = d v + (1-d) g^2, from 1; u = momentum u + lr g / sqrt(v + eps); w -= u
 *   RMSPROP_KERAS2    v = d v + (1-d) g^2, from 0; w -= lr g / (sqrt(v) + eps)
 *   RMSPROP_TORCH     v = d v + (1-d) g^2, from 0; u = momentum u + g / (sqrt(v) + eps); w -= lr u
 *   RMSPROP_DEEPMIND  m = d m + (1-d) g, v = d v + (1-d) g^2, from 0; w -= lr g / sqrt(v-m^2+eps) [Mnih et al. 2015]
 * `centered` makes any RMSPROP divide by the root of v - m^2 where it has v; DEEPMIND always does. KERAS2 is Keras 2.1;
 * Keras 3 computes RMSPROP_TF with v from 0, which is none of these.
 */
enum {
    GPUR_ADAM = 0,
    GPUR_RMSPROP_TF = 1,
    GPUR_RMSPROP_KERAS2 = 2,
    GPUR_RMSPROP_TORCH = 3,
    GPUR_RMSPROP_DEEPMIND = 4,
};

/* An optimiser's constants. Those of another kind make no difference, and must be in range, too. */
typedef struct gpur_optimizer_config {
    int32_t kind;                /* GPUR_ADAM ... */
    int32_t centered;            /* RMSPROP_*: 1 or 0 */
    gpur_schedule learning_rate; /* by train step */
    float beta1;                 /* ADAM; 0 or more, below 1 */
    float beta2;                 /* ADAM; 0 or more, below 1 */
    float decay;                 /* RMSPROP_*: d; 0 or more, below 1 */
    float momentum;              /* RMSPROP_TF, RMSPROP_TORCH; 0 or more, below 1 */
    float epsilon;               /* where the formulas above have eps; above 0 */
    float clip_norm;             /* > 0: gradients are scaled so that their global norm is at most this */
    float clip_value;            /* > 0: each gradient component is clipped to +- this, before clip_norm looks at it */
    int64_t reserved[4];         /* 0 */
} gpur_optimizer_config;

#ifdef __cplusplus
}
#endif
#endif
