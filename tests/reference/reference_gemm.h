/* SPDX-License-Identifier: MIT */
/* Matrix products by their definition, in double. */
#pragma once

#include "device/gemm.h"

/* Shape (m, n, k); bits of `variant`: 1 A transposed, 2 B transposed, 4 accumulate. `pad` puts gaps between rows. */
gpur_gemm_shape reference_gemm_shape(int64_t m, int64_t n, int64_t k, int variant, int64_t pad);

/* Element (row, column) of op(A) op(B) + accumulate * C, before any epilogue; `size`, if not NULL, gets the sum of the
 * magnitudes of what was added, which is what its rounding errors grow with. */
double reference_gemm(const gpur_gemm_shape *shape, const void *a, const void *b, const float *c, int64_t row,
                      int64_t column, double *size);
