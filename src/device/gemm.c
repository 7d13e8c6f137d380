/* SPDX-License-Identifier: MIT */
/* Matrix products: checks arguments and calls the backend. */
#include "device/gemm.h"

#include "device/backend.h"
#include "gpureplay/math.h"

#include <inttypes.h>

static gpur_status check_pitch(const char *matrix, int64_t pitch, int64_t columns)
{
    GPUR_REQUIRE(pitch >= columns,
                 "rows of the matrix product's %s are %" PRId64 " apart; as stored they have %" PRId64 " columns",
                 matrix, pitch, columns);
    return GPUR_OK;
}

static gpur_status check_flag(const char *name, int32_t flag, int32_t last)
{
    GPUR_REQUIRE(flag >= 0 && flag <= last, "%s of a matrix product is %d; it must be 0 to %d", name, (int)flag,
                 (int)last);
    return GPUR_OK;
}

static gpur_status check_shape(const gpur_gemm_shape *s)
{
    GPUR_REQUIRE(s->m >= 1 && s->n >= 1 && s->k >= 1 && s->m <= INT32_MAX && s->n <= INT32_MAX && s->k <= INT32_MAX,
                 "a matrix product of (%" PRId64 ", %" PRId64 ") by (%" PRId64 ", %" PRId64 "); each must be 1 to %d",
                 s->m, s->k, s->k, s->n, INT32_MAX);
    GPUR_TRY(check_flag("transpose_a", s->transpose_a, 1));
    GPUR_TRY(check_flag("transpose_b", s->transpose_b, 1));
    GPUR_TRY(check_flag("accumulate", s->accumulate, 1));
    GPUR_TRY(check_flag("epilogue", s->epilogue, GPUR_EPILOGUE_BIAS_RELU));
    GPUR_TRY(check_flag("math", s->math, GPUR_MATH_BF16));
    GPUR_TRY(check_flag("bf16", s->bf16, 1));
    GPUR_REQUIRE(!s->bf16 || (s->lda % 8 == 0 && s->ldb % 8 == 0),
                 "rows of bfloat16 of a matrix product are %" PRId64 " and %" PRId64
                 " numbers apart; it must be multiples of 8",
                 s->lda, s->ldb);
    GPUR_TRY(check_pitch("A", s->lda, s->transpose_a ? s->m : s->k));
    GPUR_TRY(check_pitch("B", s->ldb, s->transpose_b ? s->k : s->n));
    GPUR_TRY(check_pitch("C", s->ldc, s->n));
    GPUR_REQUIRE(s->lda <= INT32_MAX && s->ldb <= INT32_MAX && s->ldc <= INT32_MAX,
                 "rows of a matrix product's A, B, C are %" PRId64 ", %" PRId64 ", %" PRId64 " apart; at most %d",
                 s->lda, s->ldb, s->ldc, INT32_MAX);
    return GPUR_OK;
}

gpur_status gpur_gemm_create(gpur_device *device, const gpur_gemm_shape *shape, gpur_gemm **gemm)
{
    *gemm = NULL;
    GPUR_TRY(check_shape(shape));
    return device->backend->gemm_create(device, shape, gemm);
}

void gpur_gemm_destroy(gpur_gemm *gemm)
{
    if (gemm)
        gemm->device->backend->gemm_destroy(gemm);
}

int64_t gpur_gemm_workspace_bytes(const gpur_gemm *gemm)
{
    return gemm->device->backend->gemm_workspace_bytes(gemm);
}

gpur_status gpur_gemm_run(gpur_gemm *gemm, gpur_stream *stream, int64_t rows, const void *a, const void *b, float *c,
                          const float *bias, void *workspace)
{
    const gpur_gemm_shape *const s = &gemm->shape;
    GPUR_REQUIRE(rows >= 1 && rows <= s->m,
                 "%" PRId64 " rows of a matrix product planned for %" PRId64 "; it must be 1 to that", rows, s->m);
    GPUR_REQUIRE(rows == s->m || !s->transpose_a,
                 "%" PRId64 " of %" PRId64 " rows of a matrix product whose A is transposed; it must be all of them",
                 rows, s->m);
    GPUR_REQUIRE(a && b && c, "matrix %s of a matrix product is NULL", !a ? "A" : !b ? "B" : "C");
    GPUR_REQUIRE(!s->bf16 || ((uintptr_t)a | (uintptr_t)b | (uintptr_t)c) % 16 == 0,
                 "matrices of a product of bfloat16 are at %p, %p, %p; it must be multiples of 16", a, b, (void *)c);
    GPUR_REQUIRE(bias || s->epilogue == GPUR_EPILOGUE_NONE, "the bias of a matrix product with one is NULL");
    return gemm->device->backend->gemm_run(gemm, stream, rows, a, b, c, bias, workspace);
}

const char *gpur_gemm_library(gpur_device *device)
{
    return device->backend->gemm_library(device);
}
