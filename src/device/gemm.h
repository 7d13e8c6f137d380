/* SPDX-License-Identifier: MIT */
/*
 * Matrix products (GEMM), by the library of the device: cuBLASLt on CUDA, CBLAS on the CPU, or a slow implementation of
 * our own if there is no BLAS. A plan is made once and run many times.
 */
#pragma once

#include "device/device.h"

typedef struct gpur_gemm gpur_gemm;

/* Work fused into the GEMM. Not every device has every epilogue: see gpur_gemm_create. */
enum {
    GPUR_EPILOGUE_NONE = 0,
    GPUR_EPILOGUE_BIAS = 1,      /* C = A B + bias, bias (n) */
    GPUR_EPILOGUE_BIAS_RELU = 2, /* C = max(A B + bias, 0) */
};

/*
 * C (m, n) = op(A) (m, k) op(B) (k, n) + accumulate * C, all row-major. lda, ldb, ldc are the distances between rows of
 * the matrices as stored: a transposed A is stored as (k, m). `m` is a maximum: a run may ask for fewer rows if A is
 * not transposed. All matrices are float32; or A and B are bfloat16, and the addresses of all three multiples of 16.
 */
typedef struct gpur_gemm_shape {
    int64_t m, n, k;
    int64_t lda, ldb, ldc;
    int32_t transpose_a, transpose_b;
    int32_t accumulate; /* 0 or 1 */
    int32_t epilogue;
    int32_t math; /* GPUR_MATH_* of float32 matrices */
    int32_t bf16; /* 1: A and B are bfloat16, with rows that are multiples of 16 bytes apart */
} gpur_gemm_shape;

/* GPUR_UNAVAILABLE: this device lacks the epilogue at this shape; make the plan with NONE and launch a kernel after it.
 * NONE is always available. Plans that run on the same stream can share one workspace, of the largest size that any of
 * them needs. */
gpur_status gpur_gemm_create(gpur_device *device, const gpur_gemm_shape *shape, gpur_gemm **gemm);
void gpur_gemm_destroy(gpur_gemm *gemm);
int64_t gpur_gemm_workspace_bytes(const gpur_gemm *gemm);

/* Enqueues the GEMM for the first `rows` rows of C, 1 to m. On CUDA all m rows are computed, so the arrays must hold m
 * rows. */
gpur_status gpur_gemm_run(gpur_gemm *gemm, gpur_stream *stream, int64_t rows, const void *a, const void *b, float *c,
                          const float *bias, void *workspace);

/* Returns the device's GEMM library: "OpenBLAS 0.3.21 (openmp)", "cuBLASLt 13.1.0", "plain (slow: no BLAS in this
 * build)". */
const char *gpur_gemm_library(gpur_device *device);
