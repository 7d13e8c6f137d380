/* SPDX-License-Identifier: MIT */
/* The cuBLASLt module: everything that needs no GPU. Its choice of algorithms is tested in modules/test_plan.c. */
#include "test.h"
#include "device/cuda/modules/rowmajor_gemm.h"
#include "device/cuda/modules/cublaslt.h"
#include "reference/reference_gemm.h"

static const gpur_gemm_shape shapes[] = {
    {.m = 5, .n = 3, .k = 4, .lda = 4, .ldb = 3, .ldc = 3},
    {.m = 5, .n = 3, .k = 4, .lda = 6, .ldb = 5, .ldc = 7, .transpose_b = 1, .epilogue = GPUR_EPILOGUE_BIAS},
    {.m = 2, .n = 6, .k = 7, .lda = 3, .ldb = 8, .ldc = 6, .transpose_a = 1},
    {.m = 4, .n = 4, .k = 4, .lda = 4, .ldb = 4, .ldc = 4, .transpose_a = 1, .transpose_b = 1, .accumulate = 1},
    {.m = 64,
     .n = 128,
     .k = 27,
     .lda = 27,
     .ldb = 27,
     .ldc = 128,
     .transpose_b = 1,
     .epilogue = GPUR_EPILOGUE_BIAS_RELU,
     .math = GPUR_MATH_TF32},
};
enum { SHAPES = sizeof shapes / sizeof *shapes, MAX_FLOATS = 64 * 128 };

/* Returns element (row, column) of the operand that cuBLASLt reads from column-major memory. */
static double operand(const float *memory, gpur_columns matrix, int64_t row, int64_t column)
{
    return (double)memory[matrix.transpose ? column + row * matrix.pitch : row + column * matrix.pitch];
}

static int64_t rows_of(gpur_columns matrix)
{
    return matrix.transpose ? matrix.columns : matrix.rows;
}

static int64_t columns_of(gpur_columns matrix)
{
    return matrix.transpose ? matrix.rows : matrix.columns;
}

static void check_product(const gpur_gemm_shape *s, const float *a, const float *b)
{
    const gpur_columns_product p = gpur_columns_of(s);
    CHECK_EQUAL(rows_of(p.left), rows_of(p.out));
    CHECK_EQUAL(columns_of(p.left), rows_of(p.right));
    CHECK_EQUAL(columns_of(p.right), columns_of(p.out));
    for (int64_t column = 0; column < columns_of(p.out); column++) {
        for (int64_t row = 0; row < rows_of(p.out); row++) {
            double sum = 0.0;
            for (int64_t i = 0; i < rows_of(p.right); i++)
                sum += operand(a, p.left, row, i) * operand(b, p.right, i, column);
            CHECK_NEAR(sum, reference_gemm(s, b, a, NULL, column, row, NULL), 1e-12);
        }
    }
}

TEST(a_row_major_product_is_the_same_numbers_by_columns)
{
    static float left[MAX_FLOATS], right[MAX_FLOATS];
    for (int i = 0; i < MAX_FLOATS; i++)
        left[i] = (float)(i * 37 % 101) - 50.0f, right[i] = (float)(i * 53 % 97) - 48.0f;
    for (int i = 0; i < SHAPES; i++) {
        gpur_gemm_shape s = shapes[i];
        s.accumulate = 0;
        check_product(&s, left, right);
    }
}

/* Returns the folder of the module that was just built, or NULL if there was no cuBLASLt to build it with. */
static const char *built_module(void)
{
    const char *const folder = getenv("GPUREPLAY_MODULE_DIR");
    return folder && *folder ? folder : NULL;
}

TEST(the_module_loads_and_tells_its_version)
{
    gpur_cuda_library library;
    if (!built_module())
        return;
    for (int i = 0; i < 2; i++) {
        CHECK_OK(gpur_math_library_load(&library));
        CHECK_EQUAL(library.table->version, GPUR_CUDAMATH_VERSION);
        CHECK(library.table->library_version() >= 120000);
        gpur_cuda_library_close(&library);
        CHECK(!library.table);
    }
}

TEST(plans_are_described_without_a_gpu)
{
    gpur_cuda_library library;
    if (!built_module())
        return;
    CHECK_OK(gpur_math_library_load(&library));
    const gpur_cudamath *const math = (const gpur_cudamath *)library.table;
    for (int i = 0; i < SHAPES; i++) {
        gpur_cudamath_plan *plan = NULL;
        CHECK_OK(math->plan_describe(&shapes[i], gpur_fail, &plan));
        CHECK_EQUAL(math->plan_workspace_bytes(plan), 0);
        math->plan_destroy(plan);
    }
    math->plan_destroy(NULL);
    gpur_cuda_library_close(&library);
}

TEST(a_handle_needs_a_gpu_and_says_so)
{
    gpur_cuda_library library;
    gpur_device *device = NULL;
    void *handle = NULL;
    if (!built_module())
        return;
    CHECK_OK(gpur_math_library_load(&library));
    const gpur_status has_gpu = gpur_device_open("cuda:0", NULL, &device);
    const gpur_status status = library.table->open(&handle, gpur_fail);
    CHECK_EQUAL(status == GPUR_OK, has_gpu == GPUR_OK);
    CHECK_EQUAL(handle != NULL, has_gpu == GPUR_OK);
    if (status != GPUR_OK)
        CHECK_MESSAGE("cublasLtCreate");
    library.table->close(handle);
    gpur_cuda_library_close(&library);
    gpur_device_close(device);
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    RUN(a_row_major_product_is_the_same_numbers_by_columns);
    RUN(the_module_loads_and_tells_its_version);
    RUN(plans_are_described_without_a_gpu);
    RUN(a_handle_needs_a_gpu_and_says_so);
    return test_main_end();
}
