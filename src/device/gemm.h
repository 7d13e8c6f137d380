/* SPDX-License-Identifier: MIT */
/*
 * Matrix products, by the library of the device: cuBLASLt on CUDA, CBLAS on the CPU, and a plain stand-in where there
 * is no BLAS. A plan is made once and run many times.
 */
#ifndef GPUR_DEVICE_GEMM_H
#define GPUR_DEVICE_GEMM_H

#include "device/device.h"

typedef struct gpur_gemm gpur_gemm;

/* What rides in the product. Not every device has every one: see gpur_gemm_create. */
enum {
    GPUR_EPILOGUE_NONE = 0,
    GPUR_EPILOGUE_BIAS = 1,      /* C = A B + bias, bias (n) */
    GPUR_EPILOGUE_BIAS_RELU = 2, /* C = max(A B + bias, 0) */
};

/*
 * C (m, n) = op(A) (m, k) op(B) (k, n) + accumulate * C, all row-major float32. lda, ldb, ldc are the distances between
 * rows of the matrices as stored: a transposed A is stored (k, m). `m` is the largest: a run may ask for fewer rows
 * when A is not transposed.
 */
typedef struct gpur_gemm_shape {
    int64_t m, n, k;
    int64_t lda, ldb, ldc;
    int32_t transpose_a, transpose_b;
    int32_t accumulate; /* 0 or 1 */
    int32_t epilogue;
    int32_t math;     /* GPUR_MATH_*; A, B and C are float32 whichever */
    int32_t by_graph; /* CUDA: 1 goes by a graph of cuDNN's wherever it has one; 0 by cuBLASLt wherever that can */
    int32_t aligned;  /* 1: A, B, C and the bias of every run begin at multiples of 16 bytes. A graph can use it */
} gpur_gemm_shape;

/* GPUR_UNAVAILABLE when this device has no such epilogue at this shape: make the plan with NONE and launch a kernel
 * after it. NONE is always there. `workspace` is shared by the plans of one stream: ask its size first. */
gpur_status gpur_gemm_create(gpur_device *device, const gpur_gemm_shape *shape, gpur_gemm **gemm);
void gpur_gemm_destroy(gpur_gemm *gemm);
int64_t gpur_gemm_workspace_bytes(const gpur_gemm *gemm);

/* Enqueues the product for the first `rows` rows of C, 1 to m. On CUDA all m rows are computed: the memory is there. */
gpur_status gpur_gemm_run(gpur_gemm *gemm, gpur_stream *stream, int64_t rows, const float *a, const float *b, float *c,
                          const float *bias, void *workspace);

/* Which way a plan goes: "OpenBLAS 0.3.21 (openmp)", "cuBLASLt 13.1.0", "cuDNN 9.19.0". */
const char *gpur_gemm_way(const gpur_gemm *gemm);

/* "OpenBLAS 0.3.21 (openmp)", "cuBLASLt 13.1.0", "plain (slow: no BLAS in this build)" */
const char *gpur_gemm_library(gpur_device *device);

#endif
