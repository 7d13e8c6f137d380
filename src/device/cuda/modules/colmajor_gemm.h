/* SPDX-License-Identifier: MIT */
/*
 * Describes a row-major GEMM to cuBLASLt, which expects column-major matrices. Uses nothing of CUDA, so that tests can
 * check it on the CPU.
 *
 * The memory of a row-major (r, c) matrix is that of the column-major (c, r) transpose. So C = op(A) op(B) is computed
 * as C^T = op(B)^T op(A)^T: our B is the left operand and our A the right one, and no matrix is copied.
 *
 *   left   column-major memory of B: (n, k), or (k, n) and then transposed if B is     as an operand (n, k)
 *   right  column-major memory of A: (k, m), or (m, k) and then transposed if A is     as an operand (k, m)
 *   out    column-major memory of C: (n, m)
 *
 * cuBLASLt adds one bias value to each row of `out`: n values, one per output feature.
 */
#pragma once

#include "device/gemm.h"

typedef struct gpur_colmajor_matrix {
    int64_t rows, columns; /* as stored */
    int64_t pitch;         /* distance from one column to the next */
    int transpose;
} gpur_colmajor_matrix;

typedef struct gpur_colmajor_gemm {
    gpur_colmajor_matrix left, right, out;
} gpur_colmajor_gemm;

static inline gpur_colmajor_gemm gpur_colmajor_gemm_of(const gpur_gemm_shape *s)
{
    const gpur_colmajor_gemm product = {
        .left = {s->transpose_b ? s->k : s->n, s->transpose_b ? s->n : s->k, s->ldb, s->transpose_b},
        .right = {s->transpose_a ? s->m : s->k, s->transpose_a ? s->k : s->m, s->lda, s->transpose_a},
        .out = {s->n, s->m, s->ldc, 0},
    };
    return product;
}
