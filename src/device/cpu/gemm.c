/* SPDX-License-Identifier: MIT */
/* Matrix products on the CPU: enqueues them. None of the libraries has epilogues; bias and activation are a separate
 * kernel. */
#include "device/cpu/cpu.h"

typedef struct gemm_op {
    gpur_gemm_shape shape; /* a copy: the plan may be destroyed before the GEMM runs, as on CUDA */
    int64_t rows;
    const float *a, *b;
    float *c;
} gemm_op;
_Static_assert(sizeof(gemm_op) <= GPUR_CPU_PAYLOAD, "a product must fit the payload of an operation");

static void warn_once(gpur_device *device)
{
    const char *const warning = gpur_cpu_blas_warning();
    if (warning && atomic_exchange(&gpur_cpu_of(device)->blas_warned, 1) == 0)
        gpur_log(device, "%s", warning);
}

gpur_status gpur_cpu_gemm_create(gpur_device *device, const gpur_gemm_shape *shape, gpur_gemm **out)
{
    if (shape->epilogue != GPUR_EPILOGUE_NONE)
        return gpur_fail(GPUR_UNAVAILABLE, "the CPU has no matrix product with epilogue %d; only with %d, none",
                         (int)shape->epilogue, GPUR_EPILOGUE_NONE);
    gpur_gemm *const gemm = (gpur_gemm *)gpur_host_alloc(device, sizeof *gemm);
    if (!gemm)
        return gpur_fail(GPUR_OUT_OF_MEMORY, "no memory for a matrix product's plan of %zu bytes", sizeof *gemm);
    warn_once(device);
    gemm->device = device;
    gemm->shape = *shape;
    *out = gemm;
    return GPUR_OK;
}

void gpur_cpu_gemm_destroy(gpur_gemm *gemm)
{
    gpur_host_free(gemm->device, gemm, sizeof *gemm);
}

int64_t gpur_cpu_gemm_workspace_bytes(const gpur_gemm *gemm)
{
    (void)gemm;
    return 0;
}

static gpur_status run_gemm(gpur_stream *stream, void *payload)
{
    const gemm_op *const op = (const gemm_op *)payload;
    gpur_cpu_sgemm(stream->device, &op->shape, op->rows, op->a, op->b, op->c);
    return GPUR_OK;
}

gpur_status gpur_cpu_gemm_run(gpur_gemm *gemm, gpur_stream *stream, int64_t rows, const float *a, const float *b,
                              float *c, const float *bias, void *workspace)
{
    (void)bias, (void)workspace;
    gemm_op *const op = (gemm_op *)gpur_cpu_begin(stream);
    op->shape = gemm->shape, op->rows = rows, op->a = a, op->b = b, op->c = c;
    return gpur_cpu_end(stream, run_gemm);
}

const char *gpur_cpu_gemm_library(gpur_device *device)
{
    return gpur_cpu_of(device)->blas;
}
