/* SPDX-License-Identifier: MIT */
/*
 * The CPU's matrix product by OpenBLAS. Its threads are those the device was opened with, for the length of the call;
 * the host program's counts stay as found. Under OpenMP a count belongs to the calling thread, so that is simple. In
 * OpenBLAS's pthread build it belongs to the process, so it is touched only for callers who named a thread count.
 */
#include "device/cpu.h"

#include <cblas.h>
#include <stdio.h>
#include <string.h>

#ifdef _OPENMP
#include <omp.h>
static const int has_openmp = 1;
#else
static const int has_openmp = 0;
#endif

static int is_parallel_by(int flavour)
{
    return openblas_get_parallel() == flavour;
}

void gpur_cpu_blas_name(char *name, size_t size)
{
    const char *const config = openblas_get_config(); /* "OpenBLAS 0.3.21 NO_AFFINITY ..." */
    const size_t first = strcspn(config, " ");
    const size_t both = config[first] ? first + 1 + strcspn(config + first + 1, " ") : first;
    const char *const flavour = is_parallel_by(OPENBLAS_OPENMP)   ? "openmp"
                                : is_parallel_by(OPENBLAS_THREAD) ? "pthread"
                                                                  : "serial";
    snprintf(name, size, "%.*s (%s)", (int)both, config, flavour);
}

const char *gpur_cpu_blas_warning(void)
{
    return has_openmp && is_parallel_by(OPENBLAS_THREAD)
               ? "OpenBLAS is its pthread build, whose threads compete with OpenMP's for the cores and make training "
                 "several times slower; libopenblas-openmp-dev has the one to use"
               : NULL;
}

static void product(const gpur_gemm_shape *s, int64_t rows, const float *a, const float *b, float *c)
{
    cblas_sgemm(CblasRowMajor, s->transpose_a ? CblasTrans : CblasNoTrans, s->transpose_b ? CblasTrans : CblasNoTrans,
                (blasint)rows, (blasint)s->n, (blasint)s->k, 1.0f, a, (blasint)s->lda, b, (blasint)s->ldb,
                s->accumulate ? 1.0f : 0.0f, c, (blasint)s->ldc);
}

#ifdef _OPENMP
/*
 * A product of less than 20 us gains a few by a second thread, and loses milliseconds where that thread has to wait for
 * its core, as OpenMP's barriers spin: small networks stay in the calling thread.
 */
static int worth_sharing(const gpur_gemm_shape *s, int64_t rows)
{
    return 2.0 * (double)rows * (double)s->n * (double)s->k >= 3e6;
}

/* OpenBLAS takes the count from the calling thread at each product, and shows the last it took to whoever asks. */
static void product_with_openmp_threads(int threads, const gpur_gemm_shape *s, int64_t rows, const float *a,
                                        const float *b, float *c)
{
    const int before = omp_get_max_threads(), shown_before = openblas_get_num_threads();
    if (before != threads)
        omp_set_num_threads(threads);
    product(s, rows, a, b, c);
    if (openblas_get_num_threads() != shown_before)
        openblas_set_num_threads(shown_before); /* which sets the thread's, too */
    if (omp_get_max_threads() != before)
        omp_set_num_threads(before);
}
#endif

/* The count is the process's: set and restored behind the device's mutex. */
static void product_with_process_threads(gpur_device *device, int threads, const gpur_gemm_shape *s, int64_t rows,
                                         const float *a, const float *b, float *c)
{
    gpur_cpu *const cpu = gpur_cpu_of(device);
    pthread_mutex_lock(&cpu->blas_mutex);
    const int before = openblas_get_num_threads();
    openblas_set_num_threads(threads);
    product(s, rows, a, b, c);
    openblas_set_num_threads(before);
    pthread_mutex_unlock(&cpu->blas_mutex);
}

/* The count of the process to run with; 0: as it stands. In the race check threads of BLAS would only be in the way. */
static int process_threads(const gpur_device *device)
{
#ifdef GPUR_RACE_CHECK
    (void)device;
    return 1;
#else
    return device->config.threads;
#endif
}

void gpur_cpu_sgemm(gpur_device *device, const gpur_gemm_shape *s, int64_t rows, const float *a, const float *b,
                    float *c)
{
#ifdef _OPENMP
    if (is_parallel_by(OPENBLAS_OPENMP)) {
        product_with_openmp_threads(worth_sharing(s, rows) ? device->threads : 1, s, rows, a, b, c);
        return;
    }
#endif
    const int threads = process_threads(device);
    if (threads > 0)
        product_with_process_threads(device, threads, s, rows, a, b, c);
    else
        product(s, rows, a, b, c);
}
