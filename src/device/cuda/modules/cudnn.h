/* SPDX-License-Identifier: MIT */
/*
 * Interface between the core and the module that links cuDNN, like cublaslt.h for cuBLASLt, for convolutions. The core
 * finds the library and loads the module when the first of them is planned; without it convolutions run as im2col.
 *
 * The module exports one function, gpur_cudadnn_table. A plan reads and writes float32, except a convolution under
 * GPUR_MATH_BF16: all of its arrays are bfloat16. For a bias in bfloat16 cuDNN has compiled engines; for one in float32
 * it would compile them at run time, for seconds each. And it lacks float32 results from bfloat16 operands: it has no
 * engine for the weights' gradient, and one slow fallback forward (cuDNN 9.19, sm_90).
 */
#pragma once

#include "device/conv.h"
#include "device/cuda/modules/cublaslt.h"

enum { GPUR_CUDADNN_VERSION = 5 }; /* of this table; the core refuses a module with another one */
#define GPUR_CUDADNN_FILE "libgpureplay_cudadnn.so." GPUR_SOVERSION
#define GPUR_CUDADNN_SYMBOL "gpur_cudadnn_table"

typedef struct gpur_cudadnn_plan gpur_cudadnn_plan;

typedef struct gpur_cudadnn_arrays {
    void *x, *w, *y, *bias;
    void *workspace; /* plan_workspace_bytes bytes, aligned to 256 */
} gpur_cudadnn_arrays;

typedef struct gpur_cudadnn {
    gpur_cuda_module module;

    /* A plan's graph is described first, which needs no GPU, and then gets an engine for the current device. */
    gpur_status (*plan_conv)(const gpur_conv_shape *shape, gpur_fail_fn fail, gpur_cudadnn_plan **plan);
    gpur_status (*plan_choose)(void *handle, gpur_cudadnn_plan *plan, gpur_fail_fn fail);
    void (*plan_destroy)(gpur_cudadnn_plan *plan);
    int64_t (*plan_workspace_bytes)(const gpur_cudadnn_plan *plan);

    /* A handle is for one thread at a time. */
    gpur_status (*plan_run)(void *handle, gpur_cudadnn_plan *plan, const gpur_cudadnn_arrays *arrays, void *stream,
                            gpur_fail_fn fail);
} gpur_cudadnn;

typedef const gpur_cudadnn *(*gpur_cudadnn_table_fn)(void);
