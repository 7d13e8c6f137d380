/* SPDX-License-Identifier: MIT */
/* bfloat16 numbers: the upper half of a float32's bits. */
#pragma once

#include "kernels/target/thread.h"

/* Rounds to the nearest, ties to even. A NaN stays a NaN of the same sign. */
GPUR_FN uint16_t gpur_bf16_round(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    if ((bits & 0x7fffffffu) > 0x7f800000u)
        return (uint16_t)(bits >> 16 | 0x40u);
    return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

/* Rounds two numbers, neither of which may be NaN, the first into the lower half. GPUs of compute capability 8.0 and
 * later have an instruction for it, which returns another NaN than gpur_bf16_round. */
GPUR_FN uint32_t gpur_bf16_pair(float first, float second)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    uint32_t pair;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(second), "f"(first));
    return pair;
#else
    return gpur_bf16_round(first) | (uint32_t)gpur_bf16_round(second) << 16;
#endif
}

GPUR_FN float gpur_bf16_widen(uint16_t x)
{
    const uint32_t bits = (uint32_t)x << 16;
    float wide;
    memcpy(&wide, &bits, sizeof wide);
    return wide;
}

/* Number i of an array of float32 or, if bf16, of bfloat16. */
GPUR_FN float gpur_bf16_or_float(const void *x, int64_t i, int32_t bf16)
{
    return bf16 ? gpur_bf16_widen(((const uint16_t *)x)[i]) : ((const float *)x)[i];
}

/* 1: a thread should convert four numbers at a time, since the target is a GPU and both arrays are aligned for it. */
GPUR_FN int gpur_bf16_in_quads(const float *wide, const uint16_t *narrow)
{
    return gpur_is_parallel() && (uintptr_t)wide % 16 == 0 && (uintptr_t)narrow % 8 == 0;
}
