/* SPDX-License-Identifier: MIT */
/*
 * The module libgpureplay_cudamath: GEMMs by cuBLASLt. Descriptors, layouts and algorithms are made once, with the
 * plan; a run sets the arithmetic and the bias pointer and enqueues the GEMM.
 */
#include "device/cuda/modules/cublaslt.h"

#include "device/cuda/modules/colmajor_gemm.h"
#include "gpureplay/math.h"

#include <cublasLt.h>
#include <inttypes.h>
#include <stdlib.h>

/* Limit of an algorithm's workspace in bytes: NVIDIA's recommendation for Hopper. */
static const uint64_t workspace_limit = (uint64_t)32 << 20;

/* Vector loads and tensor cores need aligned addresses, and a plan does not know the addresses of its runs: the second
 * head of a dueling network starts one float after the first. So a plan has two algorithms: one for addresses that are
 * all multiples of 16 bytes, and one for any float addresses, which is always FP32. A plan without both is refused, so
 * that no run can fail for its addresses. Operands in bfloat16 are always aligned. */
enum { ALIGNED, ANY, ALGORITHMS };
static const uint32_t alignments[ALGORITHMS] = {16, 4};

struct gpur_cudamath_plan {
    gpur_gemm_shape shape;
    cublasLtMatmulDesc_t operation;
    cublasLtMatrixLayout_t left, right, out;
    cublasLtMatmulAlgo_t algorithms[ALGORITHMS];
    uint64_t workspace_bytes;
};

static gpur_status check(cublasStatus_t status, gpur_fail_fn fail, const char *call)
{
    if (status == CUBLAS_STATUS_SUCCESS)
        return GPUR_OK;
    return fail(status == CUBLAS_STATUS_ALLOC_FAILED ? GPUR_OUT_OF_MEMORY : GPUR_DEVICE_ERROR, "%s: %s (%s, %d)", call,
                cublasLtGetStatusString(status), cublasLtGetStatusName(status), (int)status);
}

static int64_t library_version(void)
{
    return (int64_t)cublasLtGetVersion();
}

static gpur_status open_library(void **handle, gpur_fail_fn fail)
{
    cublasLtHandle_t made = NULL;
    const cublasStatus_t status = cublasLtCreate(&made);
    *handle = (void *)made;
    return check(status, fail, "cublasLtCreate");
}

static void close_library(void *handle)
{
    if (handle)
        (void)cublasLtDestroy((cublasLtHandle_t)handle);
}

static gpur_status make_layout(gpur_colmajor_matrix matrix, cudaDataType type, gpur_fail_fn fail,
                               cublasLtMatrixLayout_t *layout)
{
    return check(
        cublasLtMatrixLayoutCreate(layout, type, (uint64_t)matrix.rows, (uint64_t)matrix.columns, matrix.pitch), fail,
        "cublasLtMatrixLayoutCreate");
}

static gpur_status set(gpur_cudamath_plan *plan, cublasLtMatmulDescAttributes_t attribute, const void *value,
                       size_t bytes, gpur_fail_fn fail)
{
    return check(cublasLtMatmulDescSetAttribute(plan->operation, attribute, value, bytes), fail,
                 "cublasLtMatmulDescSetAttribute");
}

static gpur_status set_transposition(gpur_cudamath_plan *plan, cublasLtMatmulDescAttributes_t attribute, int transpose,
                                     gpur_fail_fn fail)
{
    const cublasOperation_t operation = transpose ? CUBLAS_OP_T : CUBLAS_OP_N;
    return set(plan, attribute, &operation, sizeof operation, fail);
}

static gpur_status set_arithmetic(gpur_cudamath_plan *plan, int which, gpur_fail_fn fail)
{
    static const cublasComputeType_t fast[] = {[GPUR_MATH_FP32] = CUBLAS_COMPUTE_32F,
                                               [GPUR_MATH_TF32] = CUBLAS_COMPUTE_32F_FAST_TF32,
                                               [GPUR_MATH_BF16] = CUBLAS_COMPUTE_32F_FAST_16BF};
    const cublasComputeType_t arithmetic =
        which == ALIGNED && !plan->shape.bf16 ? fast[plan->shape.math] : CUBLAS_COMPUTE_32F;
    return set(plan, CUBLASLT_MATMUL_DESC_COMPUTE_TYPE, &arithmetic, sizeof arithmetic, fail);
}

static cublasLtEpilogue_t epilogue_of(int32_t epilogue)
{
    switch (epilogue) {
    case GPUR_EPILOGUE_BIAS:
        return CUBLASLT_EPILOGUE_BIAS;
    case GPUR_EPILOGUE_BIAS_RELU:
        return CUBLASLT_EPILOGUE_RELU_BIAS;
    default:
        return CUBLASLT_EPILOGUE_DEFAULT;
    }
}

static gpur_status describe(gpur_cudamath_plan *plan, gpur_fail_fn fail)
{
    const gpur_colmajor_gemm product = gpur_colmajor_gemm_of(&plan->shape);
    const cublasLtEpilogue_t epilogue = epilogue_of(plan->shape.epilogue);
    const cudaDataType operand = plan->shape.bf16 ? CUDA_R_16BF : CUDA_R_32F;
    GPUR_TRY(check(cublasLtMatmulDescCreate(&plan->operation, CUBLAS_COMPUTE_32F, CUDA_R_32F), fail,
                   "cublasLtMatmulDescCreate"));
    GPUR_TRY(set_transposition(plan, CUBLASLT_MATMUL_DESC_TRANSA, product.left.transpose, fail));
    GPUR_TRY(set_transposition(plan, CUBLASLT_MATMUL_DESC_TRANSB, product.right.transpose, fail));
    GPUR_TRY(set(plan, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue, fail));
    GPUR_TRY(make_layout(product.left, operand, fail, &plan->left));
    GPUR_TRY(make_layout(product.right, operand, fail, &plan->right));
    return make_layout(product.out, CUDA_R_32F, fail, &plan->out);
}

static void plan_destroy(gpur_cudamath_plan *plan)
{
    if (!plan)
        return;
    if (plan->out)
        (void)cublasLtMatrixLayoutDestroy(plan->out);
    if (plan->right)
        (void)cublasLtMatrixLayoutDestroy(plan->right);
    if (plan->left)
        (void)cublasLtMatrixLayoutDestroy(plan->left);
    if (plan->operation)
        (void)cublasLtMatmulDescDestroy(plan->operation);
    free(plan);
}

static gpur_status plan_describe(const gpur_gemm_shape *shape, gpur_fail_fn fail, gpur_cudamath_plan **out)
{
    *out = NULL;
    gpur_cudamath_plan *const plan = (gpur_cudamath_plan *)calloc(1, sizeof *plan);
    if (!plan)
        return fail(GPUR_OUT_OF_MEMORY, "no host memory for a plan of %zu bytes", sizeof *plan);
    plan->shape = *shape;
    const gpur_status status = describe(plan, fail);
    if (status != GPUR_OK) {
        plan_destroy(plan);
        return status;
    }
    *out = plan;
    return GPUR_OK;
}

static gpur_status set_preference(cublasLtMatmulPreference_t preference, cublasLtMatmulPreferenceAttributes_t attribute,
                                  const void *value, size_t bytes, gpur_fail_fn fail)
{
    return check(cublasLtMatmulPreferenceSetAttribute(preference, attribute, value, bytes), fail,
                 "cublasLtMatmulPreferenceSetAttribute");
}

static gpur_status prefer(cublasLtMatmulPreference_t preference, uint32_t alignment, gpur_fail_fn fail)
{
    static const cublasLtMatmulPreferenceAttributes_t matrices[] = {
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES};
    GPUR_TRY(set_preference(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace_limit,
                            sizeof workspace_limit, fail));
    for (size_t i = 0; i < sizeof matrices / sizeof *matrices; i++)
        GPUR_TRY(set_preference(preference, matrices[i], &alignment, sizeof alignment, fail));
    return GPUR_OK;
}

static gpur_status fail_no_algorithm(const gpur_gemm_shape *s, cublasStatus_t status, gpur_fail_fn fail)
{
    static const char *const epilogues[] = {"none", "bias", "bias and ReLU"}, *const maths[] = {"FP32", "TF32", "BF16"};
    return fail(GPUR_UNAVAILABLE,
                "cuBLASLt has no algorithm for (%" PRId64 ", %" PRId64 ") by (%" PRId64 ", %" PRId64
                ") with rows %" PRId64 ", %" PRId64 ", %" PRId64 " apart, transposed %d %d, epilogue %s, %s (%s)",
                s->m, s->k, s->k, s->n, s->lda, s->ldb, s->ldc, (int)s->transpose_a, (int)s->transpose_b,
                epilogues[s->epilogue], s->bf16 ? "bfloat16" : maths[s->math], cublasLtGetStatusName(status));
}

/* The heuristic only reads the alignment of the bias pointer and never dereferences it (cublasLt.h), so an address with
 * exactly this alignment represents all of them. */
static gpur_status choose(cublasLtHandle_t handle, gpur_cudamath_plan *plan, cublasLtMatmulPreference_t preference,
                          int which, gpur_fail_fn fail)
{
    const void *const bias = (const void *)(uintptr_t)alignments[which];
    cublasLtMatmulHeuristicResult_t found;
    int count = 0;
    GPUR_TRY(set_arithmetic(plan, which, fail));
    GPUR_TRY(prefer(preference, alignments[which], fail));
    if (plan->shape.epilogue != GPUR_EPILOGUE_NONE)
        GPUR_TRY(set(plan, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias, fail));
    const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(handle, plan->operation, plan->left, plan->right,
                                                                 plan->out, plan->out, preference, 1, &found, &count);
    if (status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE ||
        (status == CUBLAS_STATUS_SUCCESS && (count < 1 || found.state != CUBLAS_STATUS_SUCCESS)))
        return fail_no_algorithm(&plan->shape, status, fail);
    GPUR_TRY(check(status, fail, "cublasLtMatmulAlgoGetHeuristic"));
    plan->algorithms[which] = found.algo;
    if (found.workspaceSize > plan->workspace_bytes)
        plan->workspace_bytes = found.workspaceSize;
    return GPUR_OK;
}

static gpur_status plan_choose(void *handle, gpur_cudamath_plan *plan, gpur_fail_fn fail)
{
    cublasLtMatmulPreference_t preference = NULL;
    GPUR_TRY(check(cublasLtMatmulPreferenceCreate(&preference), fail, "cublasLtMatmulPreferenceCreate"));
    gpur_status status = choose((cublasLtHandle_t)handle, plan, preference, ALIGNED, fail);
    if (status == GPUR_OK && !plan->shape.bf16)
        status = choose((cublasLtHandle_t)handle, plan, preference, ANY, fail);
    (void)cublasLtMatmulPreferenceDestroy(preference);
    return status;
}

static int64_t plan_workspace_bytes(const gpur_cudamath_plan *plan)
{
    return (int64_t)plan->workspace_bytes;
}

static int algorithm_for(const gpur_cudamath_plan *plan, const gpur_cudamath_gemm *p)
{
    const uintptr_t bits = (uintptr_t)p->a | (uintptr_t)p->b | (uintptr_t)p->c | (uintptr_t)p->bias;
    return plan->shape.bf16 || bits % alignments[ALIGNED] == 0 ? ALIGNED : ANY;
}

static gpur_status plan_run(void *handle, gpur_cudamath_plan *plan, const gpur_cudamath_gemm *p, void *stream,
                            gpur_fail_fn fail)
{
    const float one = 1.0f, old = plan->shape.accumulate ? 1.0f : 0.0f;
    const int which = algorithm_for(plan, p);
    GPUR_TRY(set_arithmetic(plan, which, fail));
    if (plan->shape.epilogue != GPUR_EPILOGUE_NONE)
        GPUR_TRY(set(plan, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &p->bias, sizeof p->bias, fail));
    return check(cublasLtMatmul((cublasLtHandle_t)handle, plan->operation, &one, p->b, plan->left, p->a, plan->right,
                                &old, p->c, plan->out, p->c, plan->out, &plan->algorithms[which], p->workspace,
                                plan->workspace_bytes, (cudaStream_t)stream),
                 fail, "cublasLtMatmul");
}

GPUR_API const gpur_cudamath *gpur_cudamath_table(void);
const gpur_cudamath *gpur_cudamath_table(void)
{
    static const gpur_cudamath table = {
        .module = {GPUR_CUDAMATH_VERSION, library_version, open_library, close_library},
        .plan_describe = plan_describe,
        .plan_choose = plan_choose,
        .plan_destroy = plan_destroy,
        .plan_workspace_bytes = plan_workspace_bytes,
        .plan_run = plan_run,
    };
    return &table;
}
