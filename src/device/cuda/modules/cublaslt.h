/* SPDX-License-Identifier: MIT */
/*
 * Interface between the core and the module that links cuBLASLt (half a gigabyte on disk). The core finds the library
 * and loads the module when the first GEMM is planned, so a user who only uses the replay never needs it.
 *
 * The module exports one function, gpur_cudamath_table. It knows nothing of the core except this header: handles are
 * void pointers, streams are cudaStream_t as void *, and errors are reported through the `fail` it is given. The device
 * must be current in every call that takes a handle or a stream.
 */
#pragma once

#include "device/gemm.h"
#include "device/cuda/modules/module.h"

enum { GPUR_CUDAMATH_VERSION = 3 }; /* of this table; the core refuses a module with another one */
#define GPUR_CUDAMATH_FILE "libgpureplay_cudamath.so." GPUR_SOVERSION
#define GPUR_CUDAMATH_SYMBOL "gpur_cudamath_table"

typedef struct gpur_cudamath_plan gpur_cudamath_plan;

typedef struct gpur_cudamath_gemm {
    const void *a, *b;
    const float *bias;
    float *c;
    void *workspace; /* plan_workspace_bytes bytes, aligned to 256 */
} gpur_cudamath_gemm;

typedef struct gpur_cudamath {
    gpur_cuda_module module;

    /* A plan is described first, which needs no GPU, and then gets an algorithm for the current device. */
    gpur_status (*plan_describe)(const gpur_gemm_shape *shape, gpur_fail_fn fail, gpur_cudamath_plan **plan);
    gpur_status (*plan_choose)(void *handle, gpur_cudamath_plan *plan, gpur_fail_fn fail);
    void (*plan_destroy)(gpur_cudamath_plan *plan);
    int64_t (*plan_workspace_bytes)(const gpur_cudamath_plan *plan);
    gpur_status (*plan_run)(void *handle, gpur_cudamath_plan *plan, const gpur_cudamath_gemm *product, void *stream,
                            gpur_fail_fn fail);
} gpur_cudamath;

typedef const gpur_cudamath *(*gpur_cudamath_table_fn)(void);
