/* SPDX-License-Identifier: MIT */
/* Optimizers of a learner (learner.h). */
#ifndef GPUREPLAY_OPTIMIZER_H
#define GPUREPLAY_OPTIMIZER_H

#include "gpureplay/schedule.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Kinds of optimizers. Each computes what the framework in its name computes. g is the gradient, w the weight, lr the
 * learning rate, d is `decay` and eps is `epsilon`. m, v and u are stored for each weight; m and u begin at 0, and v
 * begins at the number given with its formula. m^ and v^ are m and v with Adam's bias correction.
 *
 *   ADAM              m, v with bias correction; w -= lr m^ / (sqrt(v^) + eps)        [Kingma & Ba 2015, algorithm 1]
 *   ADAM_TF           m, v; w -= lr sqrt(1 - beta2^t) / (1 - beta1^t) m / (sqrt(v) + eps), which TensorFlow computes;
 *                     t counts train steps from 1                             [end of section 2 there]
 *   RMSPROP_TF        v = d v + (1-d) g^2, from 1; u = momentum u + lr g / sqrt(v + eps); w -= u
 *   RMSPROP_KERAS2    v = d v + (1-d) g^2, from 0; w -= lr g / (sqrt(v) + eps)
 *   RMSPROP_TORCH     v = d v + (1-d) g^2, from 0; u = momentum u + g / (sqrt(v) + eps); w -= lr u
 *   RMSPROP_DEEPMIND  m = d m + (1-d) g, v = d v + (1-d) g^2, from 0; w -= lr g / sqrt(v - m^2 + eps)
 *                                                                                     [Mnih et al. 2015]
 *
 * With weight_decay, ADAM and ADAM_TF begin with w -= lr weight_decay w, for every weight and bias: AdamW [Loshchilov &
 * Hutter 2019, algorithm 2, with the decay multiplied by lr], as PyTorch computes it.
 *
 * With `centered`, the other RMSPROP_* use v - m^2 in place of v under the root, too. KERAS2 is Keras 2.1; Keras 3
 * computes RMSPROP_TF with v from 0, which none of these does.
 */
enum {
    GPUR_ADAM = 0,
    GPUR_RMSPROP_TF = 1,
    GPUR_RMSPROP_KERAS2 = 2,
    GPUR_RMSPROP_TORCH = 3,
    GPUR_RMSPROP_DEEPMIND = 4,
    GPUR_ADAM_TF = 5,
};

/* The settings of an optimizer. All must be finite and in range, also those that the kind does not use. */
typedef struct gpur_optimizer_config {
    int32_t kind;                /* GPUR_ADAM, GPUR_ADAM_TF, GPUR_RMSPROP_* */
    int32_t centered;            /* 1 or 0; RMSPROP_* */
    gpur_schedule learning_rate; /* by train step; 0 or more */
    float beta1;                 /* ADAM*; 0 or more, below 1 */
    float beta2;                 /* ADAM*; 0 or more, below 1 */
    float decay;                 /* RMSPROP_*; 0 or more, below 1 */
    float momentum;              /* RMSPROP_TF and RMSPROP_TORCH; 0 or more, below 1 */
    float epsilon;               /* above 0 */
    float clip_norm;     /* above 0: gradients are scaled down so that their global norm is at most this. 0: off */
    float clip_value;    /* above 0: each gradient component is clipped to [-clip_value, clip_value] first. 0: off */
    double weight_decay; /* ADAM*; above 0: as said above. 0: off, as it must be with the other kinds */
    int64_t reserved[3]; /* 0; see gpur_schedule */
} gpur_optimizer_config;

#ifdef __cplusplus
}
#endif
#endif
