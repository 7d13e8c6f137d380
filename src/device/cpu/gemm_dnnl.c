/* SPDX-License-Identifier: MIT */
/* The CPU's GEMM by oneDNN, which runs on the thread that calls it. It serves where there is no OpenBLAS. */
#include "device/cpu/cpu.h"

#include "base/numbers.h"
#include "device/cpu/dnnl.h"

#include <stdio.h>

enum { NARROW = 16, FEW_ROWS = 32, ROWS_AT_ONCE = 256, TILE_NUMBERS = 8192 };

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

/* oneDNN is faster with the transpose of C in three cases. It multiplies blocks of 48 columns of C: one of up to NARROW
 * columns, the outputs of a last layer, has as many as C has rows then. Its kernel for less than NARROW rows is slow
 * with short sums. And it copies 48 rows of a transposed B, the weights of a layer, side by side: rows that are far
 * apart, or a multiple of 1 KB, evict each other from the cache meanwhile, and few rows of C do not make up for it. */
static int is_faster_transposed(const gpur_gemm_shape *s, int64_t rows, int64_t columns)
{
    if (columns <= NARROW && columns < rows)
        return s->transpose_a || s->transpose_b; /* without one, both would be transposed: slower */
    if (s->transpose_a || !s->transpose_b || rows <= 4 || rows > FEW_ROWS)
        return 0;
    return rows < NARROW ? s->k <= 8 : s->ldb >= 2048 || (s->ldb >= 512 && s->ldb % 256 == 0);
}

static dnnl_status_t multiply_tile(const gpur_gemm_shape *s, int64_t rows, int64_t columns, const float *a,
                                   const float *b, float *c)
{
    float transpose[TILE_NUMBERS];
    const dnnl_status_t status = dnnl_sgemm(s->transpose_b ? 'N' : 'T', s->transpose_a ? 'N' : 'T', columns, rows, s->k,
                                            1.0f, b, s->ldb, a, s->lda, 0.0f, transpose, rows);
    for (int64_t row = 0; row < rows && status == dnnl_success; row++)
        for (int64_t column = 0; column < columns; column++) {
            float *const to = c + row * s->ldc + column;
            *to = transpose[column * rows + row] + (s->accumulate ? *to : 0.0f);
        }
    return status;
}

static dnnl_status_t multiply_transposed(const gpur_gemm_shape *s, int64_t rows, int64_t columns, const float *a,
                                         const float *b, float *c)
{
    const int64_t down = gpur_min(rows, ROWS_AT_ONCE), across = TILE_NUMBERS / down;
    dnnl_status_t status = dnnl_success;
    for (int64_t i = 0; i < rows; i += down)
        for (int64_t j = 0; j < columns && status == dnnl_success; j += across)
            status = multiply_tile(s, gpur_min(rows - i, down), gpur_min(columns - j, across),
                                   a + (s->transpose_a ? i : i * s->lda), b + (s->transpose_b ? j * s->ldb : j),
                                   c + i * s->ldc + j);
    return status;
}

int gpur_cpu_multiply(const gpur_gemm_shape *s, int64_t rows, int64_t columns, const float *a, const float *b, float *c)
{
    sigset_t before;
    gpur_dnnl_hold_signals(&before);
    const dnnl_status_t status =
        is_faster_transposed(s, rows, columns)
            ? multiply_transposed(s, rows, columns, a, b, c)
            : dnnl_sgemm(s->transpose_a ? 'T' : 'N', s->transpose_b ? 'T' : 'N', rows, columns, s->k, 1.0f, a, s->lda,
                         b, s->ldb, s->accumulate ? 1.0f : 0.0f, c, s->ldc);
    gpur_dnnl_release_signals(&before);
    return (int)status;
}
