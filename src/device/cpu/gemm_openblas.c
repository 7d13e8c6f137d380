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

int gpur_cpu_multiply(const gpur_gemm_shape *s, int64_t rows, int64_t columns, const float *a, const float *b, float *c)
{
    const int of_process = is_parallel_by(OPENBLAS_THREAD);
    if (of_process)
        begin_single_threaded();
    cblas_sgemm(CblasRowMajor, s->transpose_a ? CblasTrans : CblasNoTrans, s->transpose_b ? CblasTrans : CblasNoTrans,
                (blasint)rows, (blasint)columns, (blasint)s->k, 1.0f, a, (blasint)s->lda, b, (blasint)s->ldb,
                s->accumulate ? 1.0f : 0.0f, c, (blasint)s->ldc);
    if (of_process)
        end_single_threaded();
    return 0;
}
