/* SPDX-License-Identifier: MIT */
/*
 * Which algorithms the cuBLASLt module requests, and which of them it runs. cuBLASLt chooses algorithms only on a GPU,
 * so the test chooses in its place; descriptors, layouts and preferences are cuBLASLt's own.
 */
#include <cublasLt.h>

static cublasStatus_t choose_for_test(cublasLtHandle_t, cublasLtMatmulDesc_t, cublasLtMatrixLayout_t,
                                      cublasLtMatrixLayout_t, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                      cublasLtMatmulPreference_t, int, cublasLtMatmulHeuristicResult_t *, int *);
static cublasStatus_t multiply_for_test(cublasLtHandle_t, cublasLtMatmulDesc_t, const void *, const void *,
                                        cublasLtMatrixLayout_t, const void *, cublasLtMatrixLayout_t, const void *,
                                        const void *, cublasLtMatrixLayout_t, void *, cublasLtMatrixLayout_t,
                                        const cublasLtMatmulAlgo_t *, void *, size_t, cudaStream_t);
#define cublasLtMatmulAlgoGetHeuristic choose_for_test
#define cublasLtMatmul multiply_for_test
#include "device/cuda/modules/cublaslt.c"

#include "base/status.h"
#include "test.h"

static struct {
    uint32_t min_alignment; /* smallest alignment that there are algorithms for */
    uint64_t algorithm;     /* of the last run: the alignment it was chosen for */
    cublasComputeType_t arithmetic;
} fake;

static cublasStatus_t choose_for_test(cublasLtHandle_t handle, cublasLtMatmulDesc_t operation, cublasLtMatrixLayout_t a,
                                      cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                      cublasLtMatmulPreference_t wish, int wanted,
                                      cublasLtMatmulHeuristicResult_t *result, int *count)
{
    uint32_t alignment = 0;
    size_t written = 0;
    (void)handle, (void)operation, (void)a, (void)b, (void)c, (void)d, (void)wanted;
    (void)cublasLtMatmulPreferenceGetAttribute(wish, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, &alignment,
                                               sizeof alignment, &written);
    *count = alignment >= fake.min_alignment;
    if (!*count)
        return CUBLAS_STATUS_NOT_SUPPORTED;
    memset(result, 0, sizeof *result);
    result->algo.data[0] = alignment;
    result->workspaceSize = 4096 / alignment;
    return CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t multiply_for_test(cublasLtHandle_t handle, cublasLtMatmulDesc_t operation, const void *alpha,
                                        const void *a, cublasLtMatrixLayout_t la, const void *b,
                                        cublasLtMatrixLayout_t lb, const void *beta, const void *c,
                                        cublasLtMatrixLayout_t lc, void *d, cublasLtMatrixLayout_t ld,
                                        const cublasLtMatmulAlgo_t *algorithm, void *workspace, size_t bytes,
                                        cudaStream_t stream)
{
    size_t written = 0;
    (void)handle, (void)alpha, (void)a, (void)la, (void)b, (void)lb, (void)beta, (void)c, (void)lc, (void)d;
    (void)ld, (void)workspace, (void)bytes, (void)stream;
    fake.algorithm = algorithm->data[0];
    return cublasLtMatmulDescGetAttribute(operation, CUBLASLT_MATMUL_DESC_COMPUTE_TYPE, &fake.arithmetic,
                                          sizeof fake.arithmetic, &written);
}

static gpur_status make_plan(int32_t epilogue, int32_t math, gpur_cudamath_plan **plan)
{
    const gpur_gemm_shape shape = {
        .m = 8, .n = 4, .k = 16, .lda = 16, .ldb = 4, .ldc = 4, .epilogue = epilogue, .math = math};
    GPUR_TRY(plan_describe(&shape, gpur_fail, plan));
    return plan_choose(NULL, *plan, gpur_fail);
}

/* Runs the plan with a C that starts `offset` floats after a multiple of 16 bytes. */
static gpur_status run_plan(gpur_cudamath_plan *plan, int offset)
{
    _Alignas(16) static float a[128], b[64], c[40], bias[4];
    const gpur_cudamath_gemm product = {a, b, bias, c + offset, NULL};
    return plan_run(NULL, plan, &product, NULL, gpur_fail);
}

/* Otherwise a network whose activations or weights are not aligned would fail when it first runs. A caller that asked
 * for an epilogue uses the plain GEMM and a kernel instead. */
TEST(a_plan_needs_an_algorithm_for_any_address)
{
    fake.min_alignment = 16;
    for (int32_t epilogue = GPUR_EPILOGUE_NONE; epilogue <= GPUR_EPILOGUE_BIAS_RELU; epilogue++)
        for (int32_t math = GPUR_MATH_FP32; math <= GPUR_MATH_TF32; math++) {
            gpur_cudamath_plan *plan = NULL;
            CHECK_FAILS(make_plan(epilogue, math, &plan), GPUR_UNAVAILABLE, "(8, 16) by (16, 4)");
            plan_destroy(plan);
        }
}

TEST(each_run_takes_the_algorithm_of_its_addresses_and_tf32_only_the_aligned_ones)
{
    fake.min_alignment = 4;
    for (int32_t math = GPUR_MATH_FP32; math <= GPUR_MATH_TF32; math++) {
        gpur_cudamath_plan *plan = NULL;
        CHECK_OK(make_plan(GPUR_EPILOGUE_BIAS, math, &plan));
        CHECK_EQUAL(plan_workspace_bytes(plan), 4096 / 4); /* enough for both algorithms */
        CHECK_OK(run_plan(plan, 1));
        CHECK_EQUAL(fake.algorithm, 4);
        CHECK_EQUAL(fake.arithmetic, CUBLAS_COMPUTE_32F);
        CHECK_OK(run_plan(plan, 4));
        CHECK_EQUAL(fake.algorithm, 16);
        CHECK_EQUAL(fake.arithmetic, math == GPUR_MATH_TF32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F);
        plan_destroy(plan);
    }
}

static cudaDataType type_of(cublasLtMatrixLayout_t layout)
{
    cudaDataType type = CUDA_R_8I;
    size_t written = 0;
    (void)cublasLtMatrixLayoutGetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_TYPE, &type, sizeof type, &written);
    return type;
}

/* There need be no algorithm for other addresses: operands in bfloat16 are always aligned, whatever the bias is. */
TEST(operands_of_bfloat16_have_a_result_of_float32_and_one_algorithm)
{
    gpur_cudamath_plan *plan = NULL;
    const gpur_gemm_shape shape = {.m = 8, .n = 8, .k = 16, .lda = 16, .ldb = 8, .ldc = 8, .bf16 = 1};
    fake.min_alignment = 16;
    CHECK_OK(plan_describe(&shape, gpur_fail, &plan));
    CHECK_OK(plan_choose(NULL, plan, gpur_fail));
    CHECK(type_of(plan->left) == CUDA_R_16BF && type_of(plan->right) == CUDA_R_16BF);
    CHECK(type_of(plan->out) == CUDA_R_32F);
    CHECK_OK(run_plan(plan, 0));
    CHECK_EQUAL(fake.algorithm, 16);
    CHECK_EQUAL(fake.arithmetic, CUBLAS_COMPUTE_32F);
    plan_destroy(plan);
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    RUN(a_plan_needs_an_algorithm_for_any_address);
    RUN(operands_of_bfloat16_have_a_result_of_float32_and_one_algorithm);
    RUN(each_run_takes_the_algorithm_of_its_addresses_and_tf32_only_the_aligned_ones);
    return test_main_end();
}
