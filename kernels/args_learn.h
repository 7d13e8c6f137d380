/* SPDX-License-Identifier: MIT */
/* Kernels of the learner. Axes: B batch, A actions, F features of a layer, P parameters. */
#ifndef GPUR_ARGS_LEARN_H
#define GPUR_ARGS_LEARN_H

#include <stdint.h>

#define GPUR_LEARN_KERNEL_LIST(X) X(bias_activation)

/* Of a dense layer; the values are those of GPUR_LINEAR, GPUR_RELU, GPUR_TANH in the public header. */
enum { GPUR_ACTIVATION_LINEAR = 0, GPUR_ACTIVATION_RELU = 1, GPUR_ACTIVATION_TANH = 2 };

/* y = activation(y + bias), where the GEMM could not take it along. */
typedef struct gpur_bias_activation_args {
    float *y;          /* (B, F), rows `pitch` floats apart */
    const float *bias; /* (F) */
    int64_t batch, features, pitch;
    int32_t activation;
} gpur_bias_activation_args;

#endif
