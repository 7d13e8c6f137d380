/* SPDX-License-Identifier: MIT */
/*
 * The CPU's GEMM by OpenBLAS. OpenBLAS runs on the thread that calls it; a large enough GEMM is cut into tiles of C,
 * which the caller and its helpers compute. The host program's thread counts are restored. In OpenBLAS's OpenMP build
 * the thread count belongs to the calling thread. In its pthread build it belongs to the process: it is 1 while any
 * GEMM of this library runs.
 */
#include "device/cpu/cpu.h"
#include "device/cpu/openmp.h"

#include <cblas.h>
#include <stdio.h>
#include <string.h>

/* A tile with less work than TILE_OPERATIONS, about 20 us, is not worth a helper. There are several tiles per thread,
 * so that a helper that starts late still finds some. A tile narrower than MIN_SIDE spends more time packing than
 * multiplying. */
enum { TILE_OPERATIONS = 2000000, TILES_A_THREAD = 2, MIN_SIDE = 32, SIDE_MULTIPLE = 16 };

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

/* One GEMM, cut into `down` times `across` tiles. */
typedef struct gemm_job {
    const gpur_gemm_shape *shape;
    int64_t rows, down, across;
    const float *a, *b;
    float *c;
} gemm_job;

typedef struct side {
    int64_t first, count;
} side;

/* Tile boundaries coincide with those of OpenBLAS's inner tiles. */
static side side_of(int64_t length, int64_t piece, int64_t pieces)
{
    const int64_t steps = (length + SIDE_MULTIPLE - 1) / SIDE_MULTIPLE;
    const int64_t first = steps * piece / pieces * SIDE_MULTIPLE, last = steps * (piece + 1) / pieces * SIDE_MULTIPLE;
    return (side){first, (last < length ? last : length) - first};
}

static void multiply_tile(const gemm_job *p, side rows, side columns)
{
    const gpur_gemm_shape *const s = p->shape;
    const float *const a = p->a + (s->transpose_a ? rows.first : rows.first * s->lda);
    const float *const b = p->b + (s->transpose_b ? columns.first * s->ldb : columns.first);
    cblas_sgemm(CblasRowMajor, s->transpose_a ? CblasTrans : CblasNoTrans, s->transpose_b ? CblasTrans : CblasNoTrans,
                (blasint)rows.count, (blasint)columns.count, (blasint)s->k, 1.0f, a, (blasint)s->lda, b,
                (blasint)s->ldb, s->accumulate ? 1.0f : 0.0f, p->c + rows.first * s->ldc + columns.first,
                (blasint)s->ldc);
}

static void run_tile(int64_t tile, int64_t tiles, const void *args)
{
    const gemm_job *const p = (const gemm_job *)args;
    const int of_process = is_parallel_by(OPENBLAS_THREAD);
    (void)tiles;
    const int before = gpur_omp_set_one_thread();
    if (of_process)
        begin_single_threaded();
    multiply_tile(p, side_of(p->rows, tile / p->across, p->down), side_of(p->shape->n, tile % p->across, p->across));
    if (of_process)
        end_single_threaded();
    gpur_omp_restore_threads(before);
}

static double operations_of(const gemm_job *p)
{
    return 2.0 * (double)p->rows * (double)p->shape->n * (double)p->shape->k;
}

/* With fewer operations per byte, a far core takes longer to fetch a byte than to use it. */
static int where_of(const gemm_job *p)
{
    enum { OPERATIONS_A_BYTE = 64 };
    const double m = (double)p->rows, n = (double)p->shape->n, k = (double)p->shape->k;
    const double bytes = (m * k + k * n + m * n) * (double)sizeof(float);
    return operations_of(p) < OPERATIONS_A_BYTE * bytes ? GPUR_IN_CACHE : GPUR_IN_MEMORY;
}

/* Chooses the tiles by halving their longer side again and again. Their number depends only on the GEMM and the
 * device's threads, and so do the bits of the result. */
static void choose_tiles(gemm_job *p, int32_t threads)
{
    const double paid_for = operations_of(p) / TILE_OPERATIONS;
    const double limit = (double)threads * TILES_A_THREAD;
    p->down = p->across = 1;
    while (threads > 1 && 2.0 * (double)(p->down * p->across) <= (paid_for < limit ? paid_for : limit)) {
        const int64_t height = p->rows / p->down, width = p->shape->n / p->across;
        int64_t *const longer = height > width ? &p->down : &p->across;
        if ((height > width ? height : width) < 2 * MIN_SIDE)
            return;
        *longer *= 2;
    }
}

void gpur_cpu_sgemm(gpur_device *device, const gpur_gemm_shape *s, int64_t rows, const float *a, const float *b,
                    float *c)
{
    gemm_job p = {.shape = s, .rows = rows, .a = a, .b = b, .c = c};
    choose_tiles(&p, device->threads);
    gpur_cpu_run_pieces(device, p.down * p.across, where_of(&p), run_tile, &p);
}
