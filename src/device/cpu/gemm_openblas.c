/* SPDX-License-Identifier: MIT */
/*
 * The CPU's GEMM by OpenBLAS, which runs on the thread that calls it. The host program's thread counts are restored. In
 * OpenBLAS's OpenMP build the thread count belongs to the calling thread. In its pthread build it belongs to the
 * process: it is 1 while any GEMM of this library runs.
 */
#include "device/cpu/cpu.h"

#include <cblas.h>
#include <stdio.h>
#include <string.h>

static int is_parallel_by(int update_rule)
{
    return openblas_get_parallel() == update_rule;
}

void gpur_cpu_blas_name(char *name, size_t size)
{
    const char *const config = openblas_get_config(); /* "OpenBLAS 0.3.21 NO_AFFINITY ..." */
    const size_t first = strcspn(config, " ");
    const size_t both = config[first] ? first + 1 + strcspn(config + first + 1, " ") : first;
    const char *const update_rule = is_parallel_by(OPENBLAS_OPENMP)   ? "openmp"
                                    : is_parallel_by(OPENBLAS_THREAD) ? "pthread"
                                                                      : "serial";
    snprintf(name, size, "%.*s (%s)", (int)both, config, update_rule);
}

const char *gpur_cpu_blas_warning(void)
{
    return NULL;
}

/* Number of GEMMs now running in the whole process, and the thread count before the first of them. */
static pthread_mutex_t process_mutex = PTHREAD_MUTEX_INITIALIZER;
static int64_t process_products;
static int process_threads;

static void begin_single_threaded(void)
{
    pthread_mutex_lock(&process_mutex);
    if (process_products++ == 0) {
        process_threads = openblas_get_num_threads();
        openblas_set_num_threads(1);
    }
    pthread_mutex_unlock(&process_mutex);
}

static void end_single_threaded(void)
{
    pthread_mutex_lock(&process_mutex);
    if (--process_products == 0)
        openblas_set_num_threads(process_threads);
    pthread_mutex_unlock(&process_mutex);
}

/* C = 0. OpenBLAS writes these zeros number by number, which takes a tenth of the time of a small product. */
static void clear(int64_t rows, int64_t columns, float *c, int64_t ldc)
{
    for (int64_t row = 0; row < rows; row++)
        memset(c + row * ldc, 0, (size_t)columns * sizeof *c);
}

/* C += op(A) op(B). A matrix times a vector has a function of its own, which does not copy the matrix; so has the
 * product of a column and a row. */
static void add_product(const gpur_gemm_shape *s, blasint rows, blasint columns, const float *a, const float *b,
                        float *c)
{
    const blasint k = (blasint)s->k, lda = (blasint)s->lda, ldb = (blasint)s->ldb, ldc = (blasint)s->ldc;
    const blasint a_step = s->transpose_a ? lda : 1, b_step = s->transpose_b ? 1 : ldb; /* along k */
    const CBLAS_TRANSPOSE of_a = s->transpose_a ? CblasTrans : CblasNoTrans;
    const CBLAS_TRANSPOSE of_b = s->transpose_b ? CblasTrans : CblasNoTrans;
    if (columns == 1)
        cblas_sgemv(CblasRowMajor, of_a, s->transpose_a ? k : rows, s->transpose_a ? rows : k, 1.0f, a, lda, b, b_step,
                    1.0f, c, ldc);
    else if (rows == 1)
        cblas_sgemv(CblasRowMajor, s->transpose_b ? CblasNoTrans : CblasTrans, s->transpose_b ? columns : k,
                    s->transpose_b ? k : columns, 1.0f, b, ldb, a, a_step, 1.0f, c, 1);
    else if (k == 1)
        cblas_sger(CblasRowMajor, rows, columns, 1.0f, a, s->transpose_a ? 1 : lda, b, s->transpose_b ? ldb : 1, c,
                   ldc);
    else
        cblas_sgemm(CblasRowMajor, of_a, of_b, rows, columns, k, 1.0f, a, lda, b, ldb, 1.0f, c, ldc);
}

int gpur_cpu_multiply(const gpur_gemm_shape *s, int64_t rows, int64_t columns, const float *a, const float *b, float *c)
{
    const int of_process = is_parallel_by(OPENBLAS_THREAD);
    if (of_process)
        begin_single_threaded();
    if (!s->accumulate)
        clear(rows, columns, c, s->ldc);
    add_product(s, (blasint)rows, (blasint)columns, a, b, c);
    if (of_process)
        end_single_threaded();
    return 0;
}
