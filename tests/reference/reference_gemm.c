/* SPDX-License-Identifier: MIT */
#include "reference/reference_gemm.h"

#include <math.h>
#include <string.h>

gpur_gemm_shape reference_gemm_shape(int64_t m, int64_t n, int64_t k, int variant, int64_t pad)
{
    gpur_gemm_shape s = {.m = m, .n = n, .k = k};
    s.transpose_a = variant & 1, s.transpose_b = variant >> 1 & 1, s.accumulate = variant >> 2 & 1;
    s.lda = (s.transpose_a ? m : k) + pad;
    s.ldb = (s.transpose_b ? k : n) + 2 * pad;
    s.ldc = n + 3 * pad;
    return s;
}

/* Number i of float32 or bfloat16. */
static double number(const void *from, int64_t i, int is_bf16)
{
    uint32_t bits = 0;
    float x;
    if (!is_bf16)
        return ((const float *)from)[i];
    bits = (uint32_t)((const uint16_t *)from)[i] << 16;
    memcpy(&x, &bits, sizeof x);
    return x;
}

double reference_gemm(const gpur_gemm_shape *s, const void *a, const void *b, const float *c, int64_t row,
                      int64_t column, double *size)
{
    double sum = s->accumulate ? c[row * s->ldc + column] : 0.0;
    double magnitude = fabs(sum);
    for (int64_t k = 0; k < s->k; k++) {
        const int64_t in_a = s->transpose_a ? k * s->lda + row : row * s->lda + k;
        const int64_t in_b = s->transpose_b ? column * s->ldb + k : k * s->ldb + column;
        const double term = number(a, in_a, s->bf16) * number(b, in_b, s->bf16);
        sum += term;
        magnitude += fabs(term);
    }
    if (size)
        *size = magnitude;
    return sum;
}
