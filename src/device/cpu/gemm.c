/* SPDX-License-Identifier: MIT */
/* Matrix products on the CPU: enqueues them. None of the libraries has epilogues; bias and activation are a separate
 * kernel. Nor have they bfloat16: its operands are converted in the workspace. No CPU is faster this way, but it makes
 * the arithmetic of a GPU testable on every machine. */
#include "device/cpu/cpu.h"

#include "base/numbers.h"

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

/* Numbers of A and of B, as stored. */
static int64_t a_count(const gpur_gemm_shape *s)
{
    return (s->transpose_a ? s->k - 1 : s->m - 1) * s->lda + (s->transpose_a ? s->m : s->k);
}

static int64_t b_count(const gpur_gemm_shape *s)
{
    return (s->transpose_b ? s->n - 1 : s->k - 1) * s->ldb + (s->transpose_b ? s->k : s->n);
}

/* The operands in float32: A, then B from the next multiple of 256 bytes on. */
int64_t gpur_cpu_gemm_workspace_bytes(const gpur_gemm *gemm)
{
    const gpur_gemm_shape *const s = &gemm->shape;
    return s->bf16 ? gpur_round_up(a_count(s) * 4, 256) + b_count(s) * 4 : 0;
}

static gpur_status run_gemm(gpur_stream *stream, void *payload)
{
    const gemm_op *const op = (const gemm_op *)payload;
    return gpur_cpu_sgemm(stream->device, &op->shape, op->rows, op->a, op->b, op->c);
}

static gpur_status widen(gpur_stream *stream, const void *from, float *to, int64_t count)
{
    const gpur_widen_bf16_args args = {.from = from, .to = to, .count = count};
    return gpur_launch_widen_bf16(stream, gpur_grid_elements(stream->device, count), &args);
}

static gpur_status widen_operands(const gpur_gemm *gemm, gpur_stream *stream, int64_t rows, const void **a,
                                  const void **b, void *workspace)
{
    gpur_gemm_shape s = gemm->shape;
    float *const wide_a = workspace, *const wide_b = wide_a + gpur_round_up(a_count(&s) * 4, 256) / 4;
    s.m = rows;
    GPUR_TRY(widen(stream, *a, wide_a, a_count(&s)));
    GPUR_TRY(widen(stream, *b, wide_b, b_count(&s)));
    *a = wide_a, *b = wide_b;
    return GPUR_OK;
}

gpur_status gpur_cpu_gemm_run(gpur_gemm *gemm, gpur_stream *stream, int64_t rows, const void *a, const void *b,
                              float *c, const float *bias, void *workspace)
{
    (void)bias;
    if (gemm->shape.bf16)
        GPUR_TRY(widen_operands(gemm, stream, rows, &a, &b, workspace));
    gemm_op *const op = (gemm_op *)gpur_cpu_begin(stream);
    op->shape = gemm->shape, op->rows = rows, op->a = a, op->b = b, op->c = c;
    return gpur_cpu_end(stream, run_gemm);
}

const char *gpur_cpu_gemm_library(gpur_device *device)
{
    return gpur_cpu_of(device)->blas;
}
