/* SPDX-License-Identifier: MIT */
/* The arithmetic of matrix products and convolutions. */
#ifndef GPUREPLAY_MATH_H
#define GPUREPLAY_MATH_H

/* The arithmetic of matrix products and convolutions on CUDA. Weights, sums, the output layer, targets and losses are
 * always float32. The CPU always computes in float32.
 *
 * With GPUR_MATH_BF16 a network of convolutions also stores their activations, and the gradients of these, in bfloat16,
 * if each of them and the dense layer that follows has multiples of 8 channels, filters and units, and none has tanh
 * (compute capability 8.0 and later). Convolutions of other networks compute as with GPUR_MATH_TF32. */
enum {
    GPUR_MATH_FP32 = 0,
    GPUR_MATH_TF32 = 1, /* tensor cores, operands with 10-bit mantissas */
    GPUR_MATH_BF16 = 2, /* tensor cores, operands rounded to bfloat16 with 7-bit mantissas */
    GPUR_MATH_AUTO = 3, /* on the CPU FP32. On CUDA TF32, but FP32 where a learner's train step is one kernel, which is
                           faster then (gpur_dqn_config.step_kernel) */
};

#endif
