/* SPDX-License-Identifier: MIT */
/* Matrix products on CUDA, by cuBLASLt. The choice of its algorithm depends only on the shape and the library, and
 * nothing is timed here, so runs are bitwise repeatable. */
#include "device/cuda/cuda.h"

#include <inttypes.h>

typedef struct cuda_gemm {
    gpur_gemm base;
    gpur_cudamath_plan *plan;
} cuda_gemm;

static const gpur_cudamath *table_of(const gpur_device *device)
{
    return (const gpur_cudamath *)gpur_cuda_of(device)->math.table;
}

/* After a failure the next plan tries again. */
static gpur_status open_once(gpur_device *device)
{
    gpur_cuda *const cuda = gpur_cuda_of(device);
    int before;
    const cudaError_t error = gpur_cuda_enter(device, &before);
    gpur_status status = gpur_cuda_status(error, "cudaSetDevice");
    if (status == GPUR_OK) {
        pthread_mutex_lock(&cuda->math_mutex);
        status = gpur_math_library_open(&cuda->math);
        pthread_mutex_unlock(&cuda->math_mutex);
    }
    gpur_cuda_leave_quietly(before, error);
    return status;
}

static gpur_status plan(cuda_gemm *gemm)
{
    gpur_device *const device = gemm->base.device;
    const gpur_cudamath *const math = table_of(device);
    int before;
    const cudaError_t error = gpur_cuda_enter(device, &before);
    gpur_status status = gpur_cuda_status(error, "cudaSetDevice");
    if (status == GPUR_OK)
        status = math->plan_describe(&gemm->base.shape, gpur_fail, &gemm->plan);
    if (status == GPUR_OK) {
        const enum cudaStreamCaptureMode mode = gpur_cuda_relax(); /* asking about its kernels may load them */
        status = math->plan_choose(gpur_cuda_of(device)->math.handle, gemm->plan, gpur_fail);
        gpur_cuda_unrelax(mode);
    }
    gpur_cuda_leave_quietly(before, error);
    if (status == GPUR_OK)
        return GPUR_OK;
    math->plan_destroy(gemm->plan);
    gemm->plan = NULL;
    return status;
}

gpur_status gpur_cuda_gemm_create(gpur_device *device, const gpur_gemm_shape *shape, gpur_gemm **out)
{
    *out = NULL;
    GPUR_TRY(open_once(device));
    cuda_gemm *const gemm = (cuda_gemm *)gpur_host_alloc(device, sizeof *gemm);
    if (!gemm)
        return gpur_fail(GPUR_OUT_OF_MEMORY, "no host memory for a plan of %zu bytes", sizeof *gemm);
    gemm->base.device = device;
    gemm->base.shape = *shape;
    const gpur_status status = plan(gemm);
    if (status == GPUR_UNAVAILABLE && shape->epilogue != GPUR_EPILOGUE_NONE)
        gpur_cuda_log_once(device, "bias and activation of a matrix product are a kernel of their own: %s",
                           gpur_last_error());
    if (status != GPUR_OK) {
        gpur_cuda_gemm_destroy(&gemm->base);
        return status;
    }
    *out = &gemm->base;
    return GPUR_OK;
}

void gpur_cuda_gemm_destroy(gpur_gemm *base)
{
    cuda_gemm *const gemm = (cuda_gemm *)base;
    gpur_device *const device = base->device;
    table_of(device)->plan_destroy(gemm->plan);
    gpur_host_free(device, gemm, sizeof *gemm);
}

int64_t gpur_cuda_gemm_workspace_bytes(const gpur_gemm *base)
{
    const cuda_gemm *const gemm = (const cuda_gemm *)base;
    return table_of(base->device)->plan_workspace_bytes(gemm->plan);
}

static gpur_status run(const cuda_gemm *gemm, gpur_stream *stream, const gpur_cudamath_gemm *product)
{
    gpur_device *const device = gemm->base.device;
    int before;
    const cudaError_t error = gpur_cuda_enter(device, &before);
    gpur_status status = gpur_cuda_status(error, "cudaSetDevice");
    if (status == GPUR_OK)
        status = table_of(device)->plan_run(gpur_cuda_of(device)->math.handle, gemm->plan, product,
                                            (void *)gpur_cuda_native(stream), gpur_fail);
    gpur_cuda_leave_quietly(before, error);
    return status;
}

/* Computes all planned rows whatever `rows` is: a plan has one algorithm, and the arrays hold all rows. */
gpur_status gpur_cuda_gemm_run(gpur_gemm *base, gpur_stream *stream, int64_t rows, const void *a, const void *b,
                               float *c, const float *bias, void *workspace)
{
    const cuda_gemm *const gemm = (const cuda_gemm *)base;
    const gpur_cudamath_gemm product = {a, b, bias, c, workspace};
    const int64_t bytes = gpur_cuda_gemm_workspace_bytes(base);
    (void)rows;
    GPUR_REQUIRE((workspace && (uintptr_t)workspace % 256 == 0) || bytes == 0,
                 "the workspace of a matrix product is %p; wanted %" PRId64 " bytes, aligned to 256", workspace, bytes);
    return run(gemm, stream, &product);
}

const char *gpur_cuda_gemm_library(gpur_device *device)
{
    return open_once(device) == GPUR_OK ? gpur_cuda_of(device)->math.name : "none (cuBLASLt was not found)";
}
