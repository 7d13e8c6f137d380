/* SPDX-License-Identifier: MIT */
#include "reference/reference_gemm.h"

#include <math.h>

gpur_gemm_shape reference_gemm_shape(int64_t m, int64_t n, int64_t k, int variant, int64_t pad)
{
    gpur_gemm_shape s = {.m = m, .n = n, .k = k};
    s.transpose_a = variant & 1, s.transpose_b = variant >> 1 & 1, s.accumulate = variant >> 2 & 1;
    s.lda = (s.transpose_a ? m : k) + pad;
    s.ldb = (s.transpose_b ? k : n) + 2 * pad;
    s.ldc = n + 3 * pad;
    return s;
}

static double element(const float *matrix, int64_t pitch, int transposed, int64_t row, int64_t column)
{
    return transposed ? matrix[column * pitch + row] : matrix[row * pitch + column];
}

double reference_gemm(const gpur_gemm_shape *s, const float *a, const float *b, const float *c, int64_t row,
                      int64_t column, double *size)
{
    double sum = s->accumulate ? c[row * s->ldc + column] : 0.0;
    double magnitude = fabs(sum);
    for (int64_t k = 0; k < s->k; k++) {
        const double term = element(a, s->lda, s->transpose_a, row, k) * element(b, s->ldb, s->transpose_b, k, column);
        sum += term;
        magnitude += fabs(term);
    }
    if (size)
        *size = magnitude;
    return sum;
}
