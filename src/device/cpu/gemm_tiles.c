/* SPDX-License-Identifier: MIT */
/* Cuts a GEMM into tiles of C, which the caller and its helpers compute, each by a library on its own thread
 * (gemm_openblas.c or gemm_dnnl.c). */
#include "device/cpu/cpu.h"

#include "device/cpu/openmp.h"

#include <stdatomic.h>

/* A tile with less work than TILE_OPERATIONS, about 20 us, is not worth a helper. There are several tiles per thread,
 * so that a helper that starts late still finds some. A tile narrower than MIN_SIDE spends more time packing than
 * multiplying. */
enum { TILE_OPERATIONS = 2000000, TILES_A_THREAD = 2, MIN_SIDE = 32, SIDE_MULTIPLE = 16 };

/* One GEMM, cut into `down` times `across` tiles. */
typedef struct gemm_job {
    const gpur_gemm_shape *shape;
    int64_t rows, down, across;
    const float *a, *b;
    float *c;
    atomic_int *failure; /* of any tile; 0: none */
} gemm_job;

typedef struct side {
    int64_t first, count;
} side;

/* Tile boundaries coincide with those of the libraries' inner tiles. */
static side side_of(int64_t length, int64_t piece, int64_t pieces)
{
    const int64_t steps = (length + SIDE_MULTIPLE - 1) / SIDE_MULTIPLE;
    const int64_t first = steps * piece / pieces * SIDE_MULTIPLE, last = steps * (piece + 1) / pieces * SIDE_MULTIPLE;
    return (side){first, (last < length ? last : length) - first};
}

static int multiply_tile(const gemm_job *p, side rows, side columns)
{
    const gpur_gemm_shape *const s = p->shape;
    const float *const a = p->a + (s->transpose_a ? rows.first : rows.first * s->lda);
    const float *const b = p->b + (s->transpose_b ? columns.first * s->ldb : columns.first);
    return gpur_cpu_multiply(s, rows.count, columns.count, a, b, p->c + rows.first * s->ldc + columns.first);
}

static void run_tile(int64_t tile, int64_t tiles, const void *args)
{
    const gemm_job *const p = (const gemm_job *)args;
    (void)tiles;
    const int before = gpur_omp_set_one_thread();
    const int failure = multiply_tile(p, side_of(p->rows, tile / p->across, p->down),
                                      side_of(p->shape->n, tile % p->across, p->across));
    gpur_omp_restore_threads(before);
    if (failure)
        atomic_store(p->failure, failure);
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

gpur_status gpur_cpu_sgemm(gpur_device *device, const gpur_gemm_shape *s, int64_t rows, const float *a, const float *b,
                           float *c)
{
    atomic_int failure = 0;
    gemm_job p = {.shape = s, .rows = rows, .a = a, .b = b, .c = c, .failure = &failure};
    choose_tiles(&p, device->threads);
    gpur_cpu_run_pieces(device, p.down * p.across, where_of(&p), run_tile, &p);
    if (!failure)
        return GPUR_OK;
    return gpur_fail(GPUR_DEVICE_ERROR, "%s could not multiply (%lld, %lld) by (%lld, %lld): status %d",
                     gpur_gemm_library(device), (long long)rows, (long long)s->k, (long long)s->k, (long long)s->n,
                     (int)failure);
}
