/* SPDX-License-Identifier: MIT */
/* GEMMs that only CUDA has: TF32 and BF16, addresses of any alignment, epilogues at the shapes of a layer. */
#include "test.h"
#include "device/gemm.h"
#include "gpureplay/learner.h"
#include "reference/reference_gemm.h"

enum { MAX_FLOATS = 1 << 17 };

/* Host and device copies of the four arrays, each from float `offset` of its memory on. */
typedef struct bench {
    gpur_device *device;
    gpur_stream *stream;
    int64_t offset;
    float *a, *b, *c, *bias;                                          /* (MAX_FLOATS) in device memory */
    float host_a[MAX_FLOATS], host_b[MAX_FLOATS], host_c[MAX_FLOATS]; /* A and B are filled once */
    float host_bias[MAX_FLOATS];
} bench;

static void fill_host(float *x, uint32_t state)
{
    for (int i = 0; i < MAX_FLOATS; i++) {
        state = state * 1664525u + 1013904223u;
        x[i] = (float)(state >> 8) / 8388608.0f - 1.0f;
    }
}

static gpur_status take(bench *t, float **memory, const float *host)
{
    GPUR_TRY(gpur_device_alloc(t->device, (MAX_FLOATS + 4) * 4, (void **)memory));
    *memory += t->offset;
    return host ? gpur_device_copy(t->device, *memory, host, MAX_FLOATS * 4) : GPUR_OK;
}

static gpur_status open_bench(bench *t, int64_t offset)
{
    t->device = test_device();
    t->offset = offset;
    fill_host(t->host_a, 1), fill_host(t->host_b, 2), fill_host(t->host_bias, 3);
    GPUR_TRY(gpur_stream_create(t->device, &t->stream));
    GPUR_TRY(take(t, &t->a, t->host_a));
    GPUR_TRY(take(t, &t->b, t->host_b));
    GPUR_TRY(take(t, &t->c, NULL));
    return take(t, &t->bias, t->host_bias);
}

static void close_bench(bench *t)
{
    float *const all[] = {t->a, t->b, t->c, t->bias};
    for (int i = 0; i < 4; i++)
        gpur_device_free(t->device, all[i] ? all[i] - t->offset : NULL);
    gpur_stream_destroy(t->stream);
    gpur_device_close(t->device);
}

static gpur_status run(bench *t, const gpur_gemm_shape *shape)
{
    gpur_gemm *gemm = NULL;
    void *workspace = NULL;
    GPUR_TRY(gpur_gemm_create(t->device, shape, &gemm));
    gpur_status status = GPUR_OK;
    if (gpur_gemm_workspace_bytes(gemm))
        status = gpur_device_alloc(t->device, gpur_gemm_workspace_bytes(gemm), &workspace);
    if (status == GPUR_OK)
        status = gpur_gemm_run(gemm, t->stream, shape->m, t->a, t->b, t->c, t->bias, workspace);
    if (status == GPUR_OK)
        status = gpur_stream_sync(t->stream);
    gpur_device_free(t->device, workspace);
    gpur_gemm_destroy(gemm);
    GPUR_TRY(status);
    return gpur_device_copy(t->device, t->host_c, t->c, shape->m * shape->ldc * 4);
}

/* The relative rounding error of a term is 2^-24 in FP32, 2^-11 for both operands in TF32 and 2^-8 in BF16; errors of
 * sums of k terms stay well within the tolerance. */
static void check_result(const bench *t, const gpur_gemm_shape *s)
{
    static const double relative_of[] = {[GPUR_MATH_FP32] = 1e-6, [GPUR_MATH_TF32] = 2e-3, [GPUR_MATH_BF16] = 1e-2};
    const double relative = relative_of[s->math];
    for (int64_t i = 0; i < s->m; i++)
        for (int64_t j = 0; j < s->n; j++) {
            double size = 0.0, want = reference_gemm(s, t->host_a, t->host_b, NULL, i, j, &size);
            if (s->epilogue != GPUR_EPILOGUE_NONE)
                want += (double)t->host_bias[j];
            if (s->epilogue == GPUR_EPILOGUE_BIAS_RELU && want < 0.0)
                want = 0.0;
            CHECK_NEAR(t->host_c[i * s->ldc + j], want, 1e-6 + relative * size);
        }
}

/* Layers of 128 units on 27 features and of 1024 units on 128: forward, weight gradient, input gradient. */
static const gpur_gemm_shape layers[] = {
    {.m = 64, .n = 128, .k = 27, .lda = 32, .ldb = 27, .ldc = 128, .transpose_b = 1},
    {.m = 64, .n = 1024, .k = 128, .lda = 128, .ldb = 128, .ldc = 1024, .transpose_b = 1},
    {.m = 128, .n = 27, .k = 64, .lda = 128, .ldb = 32, .ldc = 27, .transpose_a = 1},
    {.m = 64, .n = 128, .k = 1024, .lda = 1024, .ldb = 128, .ldc = 128},
};

static void check_layers(int64_t offset, int32_t math)
{
    static bench t;
    CHECK_OK(open_bench(&t, offset));
    for (size_t i = 0; i < sizeof layers / sizeof *layers; i++)
        for (int32_t epilogue = GPUR_EPILOGUE_NONE; epilogue <= GPUR_EPILOGUE_BIAS_RELU; epilogue++) {
            gpur_gemm_shape s = layers[i];
            s.math = math;
            s.epilogue = epilogue;
            const gpur_status status = run(&t, &s);
            CHECK(status == GPUR_OK || (status == GPUR_UNAVAILABLE && epilogue != GPUR_EPILOGUE_NONE));
            if (status == GPUR_OK)
                check_result(&t, &s);
        }
    close_bench(&t);
}

TEST(layers_agree_in_fp32)
{
    check_layers(0, GPUR_MATH_FP32);
}

TEST(layers_agree_in_tf32)
{
    check_layers(0, GPUR_MATH_TF32);
}

TEST(addresses_that_are_only_floats_are_right)
{
    check_layers(1, GPUR_MATH_FP32);
    check_layers(1, GPUR_MATH_TF32);
}

TEST(layers_agree_in_bf16)
{
    check_layers(0, GPUR_MATH_BF16);
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    if (!test_on_cuda()) {
        printf("test_cuda_gemm: %s has no cuBLASLt\n", test_device_name());
        return 77;
    }
    RUN(layers_agree_in_fp32);
    RUN(layers_agree_in_tf32);
    RUN(layers_agree_in_bf16);
    RUN(addresses_that_are_only_floats_are_right);
    return test_main_end();
}
