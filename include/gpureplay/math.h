/* SPDX-License-Identifier: MIT */
/* The arithmetic of matrix products and convolutions. */
#ifndef GPUREPLAY_MATH_H
#define GPUREPLAY_MATH_H

/* The arithmetic of matrix products and convolutions on CUDA. Weights, sums, the output layer, targets and losses are
 * always float32. The CPU always computes in float32. */
enum {
    GPUR_MATH_FP32 = 0,
    GPUR_MATH_TF32 = 1, /* tensor cores, operands with 10-bit mantissas */
    GPUR_MATH_BF16 = 2, /* tensor cores, operands rounded to bfloat16 with 7-bit mantissas */
};

#endif
