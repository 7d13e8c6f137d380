/* SPDX-License-Identifier: MIT */
/* Matrix products on CUDA: the module of math_cuda.h, loaded when the first one is planned. */
#include "device/device_cuda.h"

#include <inttypes.h>
#include <stdio.h>

typedef struct cuda_gemm {
    gpur_gemm base;
    gpur_cudamath_plan *plan;
} cuda_gemm;

static const gpur_cudamath *table_of(const gpur_device *device)
{
    return gpur_cuda_of(device)->math.table;
}

/* With the mutex held and the device current. A failure is tried again at the next plan. */
static gpur_status load(gpur_cuda *cuda)
{
    if (cuda->math_handle)
        return GPUR_OK;
    if (!cuda->math.table)
        GPUR_TRY(gpur_math_library_load(&cuda->math));
    GPUR_TRY(cuda->math.table->open(&cuda->math_handle, gpur_fail));
    const int version = (int)cuda->math.table->library_version();
    snprintf(cuda->math_name, sizeof cuda->math_name, "cuBLASLt %d.%d.%d", version / 10000, version / 100 % 100,
             version % 100);
    return GPUR_OK;
}

static gpur_status load_once(gpur_device *device)
{
    gpur_cuda *const cuda = gpur_cuda_of(device);
    int before;
    const cudaError_t error = gpur_cuda_enter(device, &before);
    gpur_status status = gpur_cuda_status(error, "cudaSetDevice");
    if (status == GPUR_OK) {
        pthread_mutex_lock(&cuda->math_mutex);
        status = load(cuda);
        pthread_mutex_unlock(&cuda->math_mutex);
    }
    gpur_cuda_leave_quietly(before, error);
    return status;
}

void gpur_cuda_math_close(gpur_cuda *cuda)
{
    if (cuda->math_handle)
        cuda->math.table->close(cuda->math_handle);
    cuda->math_handle = NULL;
    gpur_math_library_unload(&cuda->math);
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
    if (status == GPUR_OK)
        status = math->plan_choose(gpur_cuda_of(device)->math_handle, gemm->plan, gpur_fail);
    gpur_cuda_leave_quietly(before, error);
    return status;
}

gpur_status gpur_cuda_gemm_create(gpur_device *device, const gpur_gemm_shape *shape, gpur_gemm **out)
{
    *out = NULL;
    GPUR_TRY(load_once(device));
    cuda_gemm *const gemm = (cuda_gemm *)gpur_host_alloc(device, sizeof *gemm);
    if (!gemm)
        return gpur_fail(GPUR_OUT_OF_MEMORY, "no host memory for a plan of %zu bytes", sizeof *gemm);
    gemm->base.device = device;
    gemm->base.shape = *shape;
    const gpur_status status = plan(gemm);
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
    return table_of(base->device)->plan_workspace_bytes(((const cuda_gemm *)base)->plan);
}

/* All planned rows are computed, whatever `rows` asks for: a plan has one algorithm, and the memory is there. */
gpur_status gpur_cuda_gemm_run(gpur_gemm *base, gpur_stream *stream, int64_t rows, const float *a, const float *b,
                               float *c, const float *bias, void *workspace)
{
    const cuda_gemm *const gemm = (const cuda_gemm *)base;
    const gpur_cudamath_product product = {a, b, bias, c, workspace};
    const int64_t bytes = gpur_cuda_gemm_workspace_bytes(base);
    (void)rows;
    GPUR_REQUIRE((workspace && (uintptr_t)workspace % 256 == 0) || bytes == 0,
                 "the workspace of a matrix product is %p; wanted %" PRId64 " bytes, aligned to 256", workspace, bytes);
    int before;
    const cudaError_t error = gpur_cuda_enter(base->device, &before);
    gpur_status status = gpur_cuda_status(error, "cudaSetDevice");
    if (status == GPUR_OK)
        status = table_of(base->device)
                     ->plan_run(gpur_cuda_of(base->device)->math_handle, gemm->plan, &product,
                                (void *)gpur_cuda_native(stream), gpur_fail);
    gpur_cuda_leave_quietly(before, error);
    return status;
}

const char *gpur_cuda_gemm_library(gpur_device *device)
{
    return load_once(device) == GPUR_OK ? gpur_cuda_of(device)->math_name : "none (cuBLASLt was not found)";
}
