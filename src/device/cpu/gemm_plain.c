/* SPDX-License-Identifier: MIT */
/*
 * The CPU's GEMM without a BLAS. A piece of the job is some rows of C. B is copied into a panel that stays in the L1
 * cache, whichever way B is stored; the innermost loop computes n independent sums, so the compiler vectorizes it.
 */
#include "device/cpu/cpu.h"

#include "base/numbers.h"

#include <stdio.h>
#include <string.h>

/* A piece has enough rows to be worth filling the panels, and enough operations (about 20 us) to be worth a helper. */
enum { PANEL_K = 64, PANEL_N = 64, MIN_ROWS = 8, MIN_OPERATIONS = 400000 };

typedef struct plain_product {
    const gpur_gemm_shape *shape;
    int64_t rows;
    const float *a, *b;
    float *c;
} plain_product;

/* Elements of B, rows k0 to k0 + kn and columns n0 to n0 + nn, zero-padded to PANEL_N columns. */
typedef struct plain_panel {
    int64_t k0, kn, n0, nn;
    float b[PANEL_K][PANEL_N];
} plain_panel;

void gpur_cpu_blas_name(char *name, size_t size)
{
    snprintf(name, size, "plain (slow: no BLAS in this build)");
}

const char *gpur_cpu_blas_warning(void)
{
    return "no BLAS in this build: matrix products are slow; install libopenblas-openmp-dev and build again";
}

static void fill_panel(const gpur_gemm_shape *s, const float *b, plain_panel *panel)
{
    const int64_t step_k = s->transpose_b ? 1 : s->ldb, step_n = s->transpose_b ? s->ldb : 1;
    for (int64_t k = 0; k < panel->kn; k++) {
        const float *const from = b + (panel->k0 + k) * step_k + panel->n0 * step_n;
        for (int64_t n = 0; n < PANEL_N; n++)
            panel->b[k][n] = n < panel->nn ? from[n * step_n] : 0.0f;
    }
}

/* c (nn) += row `i` of A times the panel. */
static void add_row(const plain_product *p, const plain_panel *panel, int64_t i)
{
    const gpur_gemm_shape *const s = p->shape;
    const int64_t step_k = s->transpose_a ? s->lda : 1;
    const float *const a = p->a + (s->transpose_a ? i : i * s->lda) + panel->k0 * step_k;
    float *const c = p->c + i * s->ldc + panel->n0;
    float sums[PANEL_N] = {0};
    for (int64_t k = 0; k < panel->kn; k++) {
        const float x = a[k * step_k];
        for (int n = 0; n < PANEL_N; n++)
            sums[n] += x * panel->b[k][n];
    }
    for (int64_t n = 0; n < panel->nn; n++)
        c[n] += sums[n];
}

static void clear_rows(const plain_product *p, int64_t first, int64_t last)
{
    for (int64_t i = first; i < last; i++)
        memset(p->c + i * p->shape->ldc, 0, (size_t)p->shape->n * sizeof *p->c);
}

static void run_piece(int64_t piece, int64_t pieces, const void *args)
{
    const plain_product *const p = (const plain_product *)args;
    const gpur_gemm_shape *const s = p->shape;
    const int64_t first = p->rows * piece / pieces, last = p->rows * (piece + 1) / pieces;
    plain_panel panel;
    if (!s->accumulate)
        clear_rows(p, first, last);
    for (panel.n0 = 0; panel.n0 < s->n; panel.n0 += PANEL_N)
        for (panel.k0 = 0; panel.k0 < s->k; panel.k0 += PANEL_K) {
            panel.nn = gpur_min(PANEL_N, s->n - panel.n0);
            panel.kn = gpur_min(PANEL_K, s->k - panel.k0);
            fill_panel(s, p->b, &panel);
            for (int64_t i = first; i < last; i++)
                add_row(p, &panel, i);
        }
}

gpur_status gpur_cpu_sgemm(gpur_device *device, const gpur_gemm_shape *s, int64_t rows, const float *a, const float *b,
                           float *c)
{
    const plain_product p = {.shape = s, .rows = rows, .a = a, .b = b, .c = c};
    const int64_t worth = (int64_t)(2.0 * (double)rows * (double)s->n * (double)s->k / MIN_OPERATIONS);
    const int64_t pieces = gpur_min(device->threads, gpur_min(rows / MIN_ROWS, worth));
    gpur_cpu_run_pieces(device, pieces > 1 ? pieces : 1, GPUR_IN_MEMORY, run_piece, &p);
    return GPUR_OK;
}
