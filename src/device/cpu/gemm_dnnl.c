/* SPDX-License-Identifier: MIT */
/* The CPU's GEMM by oneDNN, which runs on the thread that calls it. It serves where there is no OpenBLAS. */
#include "device/cpu/cpu.h"

#include "base/numbers.h"

#include <oneapi/dnnl/dnnl.h>
#include <stdio.h>

/* oneDNN multiplies blocks of 48 columns of C. A C of fewer than NARROW columns, the outputs of a last layer, is
 * computed as its transpose, which has as many columns as C has rows, and is copied from there. */
enum { NARROW = 16, ROWS_AT_ONCE = 256 };

void gpur_cpu_blas_name(char *name, size_t size)
{
    const dnnl_version_t *const version = dnnl_version();
    snprintf(name, size, "oneDNN %d.%d.%d (%s)", version->major, version->minor, version->patch,
             version->cpu_runtime == DNNL_RUNTIME_SEQ ? "serial" : "openmp");
}

const char *gpur_cpu_blas_warning(void)
{
    return NULL;
}

static dnnl_status_t multiply_narrow(const gpur_gemm_shape *s, int64_t rows, int64_t columns, const float *a,
                                     const float *b, float *c)
{
    float transpose[NARROW * ROWS_AT_ONCE];
    dnnl_status_t status = dnnl_success;
    for (int64_t first = 0; first < rows && status == dnnl_success; first += ROWS_AT_ONCE) {
        const int64_t count = gpur_min(rows - first, ROWS_AT_ONCE);
        status = dnnl_sgemm(s->transpose_b ? 'N' : 'T', s->transpose_a ? 'N' : 'T', columns, count, s->k, 1.0f, b,
                            s->ldb, a + (s->transpose_a ? first : first * s->lda), s->lda, 0.0f, transpose, count);
        for (int64_t row = 0; row < count && status == dnnl_success; row++)
            for (int64_t column = 0; column < columns; column++) {
                float *const to = c + (first + row) * s->ldc + column;
                *to = transpose[column * count + row] + (s->accumulate ? *to : 0.0f);
            }
    }
    return status;
}

int gpur_cpu_multiply(const gpur_gemm_shape *s, int64_t rows, int64_t columns, const float *a, const float *b, float *c)
{
    const int has_transpose = s->transpose_a || s->transpose_b; /* without one, both would be transposed: slower */
    if (columns <= NARROW && columns < rows && has_transpose)
        return (int)multiply_narrow(s, rows, columns, a, b, c);
    return (int)dnnl_sgemm(s->transpose_a ? 'T' : 'N', s->transpose_b ? 'T' : 'N', rows, columns, s->k, 1.0f, a, s->lda,
                           b, s->ldb, s->accumulate ? 1.0f : 0.0f, c, s->ldc);
}
