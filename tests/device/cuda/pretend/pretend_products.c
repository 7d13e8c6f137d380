/* SPDX-License-Identifier: MIT */
/*
 * A fake of the cuBLASLt module for the fake runtime, used instead of the one that loader.c would load. There is none
 * for cuDNN: convolutions run as im2col.
 */
#include "device/cuda/pretend/faults.h"
#include "device/cuda/pretend/pretend.h"
#include "device/cuda/modules/cublaslt.h"

#include <stdio.h>
#include <stdlib.h>

struct gpur_cudamath_plan {
    gpur_gemm_shape shape;
};

typedef struct product {
    gpur_gemm_shape shape;
    gpur_cudamath_product arrays;
} product;

static float element(const product *p, int64_t i, int64_t j)
{
    const gpur_gemm_shape *const s = &p->shape;
    const int64_t step_a = s->transpose_a ? s->lda : 1, step_b = s->transpose_b ? 1 : s->ldb;
    const float *a = p->arrays.a + i * (s->transpose_a ? 1 : s->lda);
    const float *b = p->arrays.b + j * (s->transpose_b ? s->ldb : 1);
    double sum = s->accumulate ? (double)p->arrays.c[i * s->ldc + j] : 0.0;
    for (int64_t k = 0; k < s->k; k++, a += step_a, b += step_b)
        sum += (double)*a * (double)*b;
    sum += s->epilogue != GPUR_EPILOGUE_NONE ? (double)p->arrays.bias[j] : 0.0;
    return s->epilogue == GPUR_EPILOGUE_BIAS_RELU && sum < 0.0 ? 0.0f : (float)sum;
}

static void run_product(const void *payload)
{
    const product *const p = (const product *)payload;
    for (int64_t i = 0; i < p->shape.m; i++)
        for (int64_t j = 0; j < p->shape.n; j++)
            p->arrays.c[i * p->shape.ldc + j] = element(p, i, j);
}

static gpur_status plan_describe(const gpur_gemm_shape *shape, gpur_fail_fn fail, gpur_cudamath_plan **plan)
{
    *plan = (gpur_cudamath_plan *)calloc(1, sizeof **plan);
    if (!*plan)
        return fail(GPUR_OUT_OF_MEMORY, "no host memory for a plan");
    (*plan)->shape = *shape;
    pretend_count(1);
    return GPUR_OK;
}

static gpur_status plan_choose(void *handle, gpur_cudamath_plan *plan, gpur_fail_fn fail)
{
    (void)handle, (void)plan, (void)fail;
    return GPUR_OK;
}

static void plan_destroy(gpur_cudamath_plan *plan)
{
    if (plan)
        pretend_count(-1);
    free(plan);
}

static int64_t plan_workspace_bytes(const gpur_cudamath_plan *plan)
{
    (void)plan;
    return 0;
}

static gpur_status plan_run(void *handle, gpur_cudamath_plan *plan, const gpur_cudamath_product *arrays, void *stream,
                            gpur_fail_fn fail)
{
    const product p = {plan->shape, *arrays};
    (void)handle;
    if (pretend_enqueue((cudaStream_t)stream, cudaGraphNodeTypeKernel, run_product, &p, sizeof p) == cudaSuccess)
        return GPUR_OK;
    return fail(GPUR_DEVICE_ERROR, "a pretended product could not be enqueued");
}

static int64_t version(void)
{
    return 0;
}

static gpur_status open_module(void **handle, gpur_fail_fn fail)
{
    static int something;
    (void)fail;
    *handle = &something;
    pretend_count(1);
    return GPUR_OK;
}

static void close_module(void *handle)
{
    (void)handle;
    pretend_count(-1);
}

static const gpur_cudamath table = {
    .module = {GPUR_CUDAMATH_VERSION, version, open_module, close_module},
    .plan_describe = plan_describe,
    .plan_choose = plan_choose,
    .plan_destroy = plan_destroy,
    .plan_workspace_bytes = plan_workspace_bytes,
    .plan_run = plan_run,
};

gpur_status __real_gpur_math_library_open(gpur_cuda_library *library);
gpur_status __wrap_gpur_math_library_open(gpur_cuda_library *library);
gpur_status __wrap_gpur_math_library_open(gpur_cuda_library *library)
{
    if (!faults.pretend)
        return __real_gpur_math_library_open(library);
    if (library->handle)
        return GPUR_OK;
    library->table = &table.module;
    snprintf(library->name, sizeof library->name, "cuBLASLt, pretended");
    return table.module.open(&library->handle, NULL);
}

gpur_status __real_gpur_dnn_library_open(gpur_cuda_library *library);
gpur_status __wrap_gpur_dnn_library_open(gpur_cuda_library *library);
gpur_status __wrap_gpur_dnn_library_open(gpur_cuda_library *library)
{
    return faults.pretend ? gpur_fail(GPUR_UNAVAILABLE, "cuDNN is not pretended")
                          : __real_gpur_dnn_library_open(library);
}
