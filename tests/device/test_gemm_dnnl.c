/* SPDX-License-Identifier: MIT */
/* oneDNN's products, in builds with OpenBLAS, too; and those that fail, which the device reports. The program is linked
 * with its own copy of gemm_dnnl.c in the place of the library's products, and dnnl_sgemm goes by __wrap_dnnl_sgemm. */
#include "test.h"

#ifndef GPUR_HAS_DNNL

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    printf("test_gemm_dnnl: skipped: a build without oneDNN\n");
    return 77;
}

#else

#include "device/cpu/gemm_dnnl.c"

#include "device/gemm.h"

static int failing_call; /* counted down to 1, which fails; 0: none does */

dnnl_status_t __real_dnnl_sgemm(char transpose_a, char transpose_b, dnnl_dim_t m, dnnl_dim_t n, dnnl_dim_t k,
                                float alpha, const float *a, dnnl_dim_t lda, const float *b, dnnl_dim_t ldb, float beta,
                                float *c, dnnl_dim_t ldc);
dnnl_status_t __wrap_dnnl_sgemm(char transpose_a, char transpose_b, dnnl_dim_t m, dnnl_dim_t n, dnnl_dim_t k,
                                float alpha, const float *a, dnnl_dim_t lda, const float *b, dnnl_dim_t ldb, float beta,
                                float *c, dnnl_dim_t ldc);
dnnl_status_t __wrap_dnnl_sgemm(char transpose_a, char transpose_b, dnnl_dim_t m, dnnl_dim_t n, dnnl_dim_t k,
                                float alpha, const float *a, dnnl_dim_t lda, const float *b, dnnl_dim_t ldb, float beta,
                                float *c, dnnl_dim_t ldc)
{
    if (failing_call > 0 && --failing_call == 0)
        return dnnl_out_of_memory;
    return __real_dnnl_sgemm(transpose_a, transpose_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}

enum { K = 3, MOST = 2 * ROWS_AT_ONCE * 24, OLD = 100 };

/* A product of (rows, K) by (K, columns), and its calls of dnnl_sgemm. B is stored by columns, `ldb` numbers apart. */
typedef struct product {
    int64_t rows, columns, ldb;
    int calls;
} product;

static const product products[] = {
    {4, 24, K, 1},
    {16, 24, K, 1},
    {5, 24, K, 1},
    {2 * ROWS_AT_ONCE, 2, K, 2},
    {2 * ROWS_AT_ONCE - 7, NARROW, K, 2},
    {FEW_ROWS, 300, 512, 2},
    {FEW_ROWS - 3, 300, 2053, 2},
};
enum { PRODUCTS = sizeof products / sizeof *products };

/* Multiplies A, whose rows have their number as each element, by B, whose columns have theirs and 1. dnnl_sgemm's call
 * `failing` fails. */
static gpur_status multiply(const product *p, int accumulate, int failing, float *c)
{
    static float a[2 * ROWS_AT_ONCE * K], b[300 * 2053];
    const int64_t rows = p->rows, columns = p->columns;
    const gpur_gemm_shape shape = {.m = rows,
                                   .n = columns,
                                   .k = K,
                                   .transpose_b = 1,
                                   .lda = K,
                                   .ldb = p->ldb,
                                   .ldc = columns,
                                   .accumulate = accumulate,
                                   .epilogue = GPUR_EPILOGUE_NONE,
                                   .math = GPUR_MATH_FP32};
    gpur_device *const device = test_device(); /* a new one, since a failure stays with it */
    gpur_stream *stream = NULL;
    gpur_gemm *gemm = NULL;
    for (int64_t i = 0; i < rows * K; i++)
        a[i] = (float)(i / K);
    for (int64_t i = 0; i < K * columns; i++)
        b[i / K * p->ldb + i % K] = (float)(i / K + 1);
    for (int64_t i = 0; i < rows * columns; i++)
        c[i] = OLD;
    GPUR_TRY(gpur_stream_create(device, &stream));
    GPUR_TRY(gpur_gemm_create(device, &shape, &gemm));
    failing_call = failing;
    gpur_status status = gpur_gemm_run(gemm, stream, rows, a, b, c, NULL, NULL);
    if (status == GPUR_OK)
        status = gpur_stream_sync(stream);
    gpur_gemm_destroy(gemm);
    gpur_stream_destroy(stream);
    gpur_device_close(device);
    return status;
}

TEST(products_in_one_call_and_by_tiles_of_the_transpose)
{
    static float c[MOST];
    for (const product *p = products; p < products + PRODUCTS; p++)
        for (int accumulate = 0; accumulate < 2; accumulate++) {
            CHECK_OK(multiply(p, accumulate, 0, c));
            for (int64_t i = 0; i < p->rows * p->columns; i++)
                CHECK_EQUAL((int64_t)c[i], i / p->columns * (i % p->columns + 1) * K + accumulate * OLD);
        }
}

/* What calls before the failing one made stays, as after any failure of a device. */
TEST(a_product_that_fails_is_the_devices_failure)
{
    static float c[MOST];
    char text[128];
    for (const product *p = products; p < products + PRODUCTS; p++) {
        for (int failing = 1; failing <= p->calls; failing++) {
            CHECK_STATUS(multiply(p, 0, failing, c), GPUR_DEVICE_ERROR);
            snprintf(text, sizeof text, "could not multiply (%d, %d) by (%d, %d): status %d", (int)p->rows, K, K,
                     (int)p->columns, dnnl_out_of_memory);
            CHECK(strstr(gpur_last_error(), "oneDNN ") && strstr(gpur_last_error(), text));
            CHECK(c[p->rows * p->columns - 1] == OLD);
        }
        CHECK_OK(multiply(p, 0, p->calls + 1, c));
    }
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    if (test_on_cuda()) {
        printf("test_gemm_dnnl: skipped: oneDNN multiplies on the CPU\n");
        return 77;
    }
    RUN(products_in_one_call_and_by_tiles_of_the_transpose);
    RUN(a_product_that_fails_is_the_devices_failure);
    return test_main_end();
}

#endif
