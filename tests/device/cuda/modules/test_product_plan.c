/* SPDX-License-Identifier: MIT */
/*
 * usage: test_product_plan GPU.json libcuda.so.1
 *
 * The module's graphs for dense layers, and the engines that cuDNN finds and compiles for them on a described GPU, with
 * a fake driver that runs nothing (driver.c).
 */
#include "device/cuda/modules/cudnn.c"
#include "base/status.h"
#include "device/cuda/modules/described.h"

#include <cuda_runtime_api.h>
#include <dlfcn.h>

/* The hidden layers of nature-dqn and melee-gpu at batch size 32: forward and both gradients. */
static const gpur_gemm_shape products[] = {
    {.m = 32, .n = 512, .k = 3136, .lda = 3136, .ldb = 3136, .ldc = 512, .transpose_b = 1, .aligned = 1},
    {.m = 512, .n = 3136, .k = 32, .lda = 512, .ldb = 3136, .ldc = 3136, .transpose_a = 1, .aligned = 1},
    {.m = 32, .n = 3136, .k = 512, .lda = 512, .ldb = 3136, .ldc = 3136, .aligned = 1},
    {.m = 32, .n = 128, .k = 27, .lda = 28, .ldb = 27, .ldc = 128, .transpose_b = 1, .aligned = 1},
    {.m = 128, .n = 27, .k = 32, .lda = 128, .ldb = 28, .ldc = 27, .transpose_a = 1},
};
enum { PRODUCTS = sizeof products / sizeof *products };

static const device_source nobody = {NULL, NULL};

static gpur_gemm_shape product(int i, int32_t math, int32_t epilogue)
{
    gpur_gemm_shape s = products[i];
    s.math = math, s.epilogue = epilogue;
    return s;
}

TEST(every_graph_can_be_described_without_a_gpu)
{
    for (int i = 0; i < PRODUCTS; i++)
        for (int32_t math = GPUR_MATH_TF32; math <= GPUR_MATH_BF16; math++)
            for (int32_t epilogue = GPUR_EPILOGUE_NONE; epilogue <= GPUR_EPILOGUE_BIAS_RELU; epilogue++) {
                gpur_cudadnn_plan *plan = NULL;
                const gpur_gemm_shape s = product(i, math, epilogue);
                CHECK_OK(plan_product(&s, gpur_fail, &plan));
                CHECK_OK(finish_graph(plan, &nobody));
                CHECK(plan->deterministic && plan->math == math);
                CHECK_EQUAL(plan->has_bias, epilogue != GPUR_EPILOGUE_NONE);
                plan_destroy(plan);
            }
}

TEST(products_of_fp32_and_sums_of_products_are_no_graphs)
{
    gpur_cudadnn_plan *plan = NULL;
    gpur_gemm_shape s = product(0, GPUR_MATH_FP32, GPUR_EPILOGUE_NONE);
    CHECK_STATUS(plan_product(&s, gpur_fail, &plan), GPUR_UNAVAILABLE);
    CHECK_MESSAGE("(32, 3136) by (3136, 512)");
    CHECK(!plan);
    s.math = GPUR_MATH_TF32, s.accumulate = 1;
    CHECK_STATUS(plan_product(&s, gpur_fail, &plan), GPUR_UNAVAILABLE);
    CHECK(!plan);
}

/* Compares the three numbers of an attribute of a graph's tensor. */
static void check_numbers(descriptor tensor, cudnnBackendAttributeName_t name, int64_t a, int64_t b, int64_t c)
{
    int64_t got[MOST_AXES] = {0}, count = 0;
    CHECK(cudnnBackendGetAttribute(tensor, name, CUDNN_TYPE_INT64, MOST_AXES, &count, got) == CUDNN_STATUS_SUCCESS);
    CHECK_EQUAL(count, 3);
    CHECK_EQUAL(got[0], a);
    CHECK_EQUAL(got[1], b);
    CHECK_EQUAL(got[2], c);
}

/* dW (128, 27) = dY^T X: A is stored as (32, 128) with rows 128 apart, and so on. */
TEST(a_transposed_factor_is_the_same_memory_seen_the_other_way)
{
    gpur_cudadnn_plan *plan = NULL;
    const gpur_gemm_shape s = product(4, GPUR_MATH_TF32, GPUR_EPILOGUE_NONE);
    CHECK_OK(plan_product(&s, gpur_fail, &plan));
    check_numbers(plan->made[0], CUDNN_ATTR_TENSOR_DIMENSIONS, 1, 128, 32);
    check_numbers(plan->made[0], CUDNN_ATTR_TENSOR_STRIDES, 32 * 128, 1, 128);
    check_numbers(plan->made[1], CUDNN_ATTR_TENSOR_DIMENSIONS, 1, 32, 27);
    check_numbers(plan->made[1], CUDNN_ATTR_TENSOR_STRIDES, 32 * 28, 28, 1);
    check_numbers(plan->made[2], CUDNN_ATTR_TENSOR_STRIDES, 128 * 27, 27, 1);
    plan_destroy(plan);
}

static void check_engine(const gpur_gemm_shape *s)
{
    const device_source device = {NULL, described};
    gpur_cudadnn_plan *plan = NULL;
    CHECK_OK(plan_product(s, gpur_fail, &plan));
    CHECK_OK(choose(plan, &device));
    CHECK(plan->chosen && plan->config && plan->workspace_bytes <= workspace_limit);
    CHECK(has_note(plan, CUDNN_NUMERICAL_NOTE_TENSOR_CORE));
    CHECK(!has_note(plan, CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC));
    plan_destroy(plan);
}

static const char *driver;

/* cuDNN loads libcuda.so.1 by name, and gets the fake driver, which is loaded already. */
TEST(every_hidden_layer_has_a_compiled_engine_with_its_bias_and_relu)
{
    CHECK(dlopen(driver, RTLD_NOW));
    for (int i = 0; i < PRODUCTS; i++)
        for (int32_t math = GPUR_MATH_TF32; math <= GPUR_MATH_BF16; math++) {
            const int forward = products[i].transpose_b;
            const gpur_gemm_shape s = product(i, math, forward ? GPUR_EPILOGUE_BIAS_RELU : GPUR_EPILOGUE_NONE);
            check_engine(&s);
        }
}

/* This is why modules/cudnn.c leaves FP32 GEMMs to cuBLASLt. */
TEST(no_engine_of_cudnn_sums_a_product_in_fp32)
{
    const device_source device = {NULL, described};
    gpur_cudadnn_plan *plan = NULL;
    const gpur_gemm_shape s = product(0, GPUR_MATH_TF32, GPUR_EPILOGUE_NONE);
    CHECK_OK(plan_product(&s, gpur_fail, &plan));
    plan->math = GPUR_MATH_FP32;
    CHECK_STATUS(choose(plan, &device), GPUR_UNAVAILABLE);
    CHECK_MESSAGE("cuDNN has no engine for a product of (32, 3136) by (3136, 512)");
    CHECK(plan->found > 0);
    CHECK_EQUAL(plan->found, plan->of_other_arithmetic + plan->not_planned + plan->too_large);
    plan_destroy(plan);
}

static int has_compiler(void)
{
    char name[32];
    snprintf(name, sizeof name, "libnvrtc.so.%d", CUDART_VERSION / 1000);
    return dlopen(name, RTLD_NOW) != NULL;
}

int main(int argc, char **argv)
{
    char *no_arguments[] = {argv[0], NULL};
    test_main_begin(1, no_arguments);
    RUN(every_graph_can_be_described_without_a_gpu);
    RUN(products_of_fp32_and_sums_of_products_are_no_graphs);
    RUN(a_transposed_factor_is_the_same_memory_seen_the_other_way);
    if (!has_compiler())
        printf("no NVRTC: no engines were chosen\n");
    else if (argc > 2 && describe_and_say(argv[1])) {
        driver = argv[2];
        RUN(every_hidden_layer_has_a_compiled_engine_with_its_bias_and_relu);
        RUN(no_engine_of_cudnn_sums_a_product_in_fp32);
    }
    return test_main_end();
}
