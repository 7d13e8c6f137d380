/* SPDX-License-Identifier: MIT */
/* Impossible GEMMs are refused with a message that states the numbers. */
#include "test.h"
#include "reference/reference_gemm.h"

static void check_refused(gpur_device *device, gpur_gemm_shape shape, const char *message)
{
    gpur_gemm *gemm = NULL;
    CHECK_STATUS(gpur_gemm_create(device, &shape, &gemm), GPUR_INVALID_ARGUMENT);
    CHECK_MESSAGE(message);
    CHECK(!gemm);
}

static gpur_gemm_shape straight(void)
{
    return reference_gemm_shape(4, 5, 6, 0, 0);
}

TEST(impossible_shapes_are_refused)
{
    gpur_device *const device = test_device();
    gpur_gemm_shape s = straight();
    s.m = 0, check_refused(device, s, "(0, 6) by (6, 5)");
    s = straight(), s.lda = 5, check_refused(device, s, "A are 5 apart");
    s = straight(), s.ldc = 4, check_refused(device, s, "C are 4 apart");
    s = straight(), s.accumulate = 2, check_refused(device, s, "accumulate of a matrix product is 2");
    s = straight(), s.epilogue = 4, check_refused(device, s, "epilogue of a matrix product is 4");
    s = straight(), s.math = -1, check_refused(device, s, "math of a matrix product is -1");
    s = reference_gemm_shape(4, 5, 6, 1, 0), s.lda = 3, check_refused(device, s, "A are 3 apart");
    s = reference_gemm_shape(4, 5, 6, 2, 0), s.ldb = 5, check_refused(device, s, "B are 5 apart");
    gpur_device_close(device);
}

TEST(impossible_runs_are_refused)
{
    gpur_device *const device = test_device();
    const gpur_gemm_shape as_it_is = straight(), transposed = reference_gemm_shape(4, 5, 6, 1, 0);
    gpur_gemm *gemm = NULL, *other = NULL;
    gpur_stream *stream = NULL;
    float x[64] = {0};
    CHECK_OK(gpur_stream_create(device, &stream));
    CHECK_OK(gpur_gemm_create(device, &as_it_is, &gemm));
    CHECK_OK(gpur_gemm_create(device, &transposed, &other));
    CHECK_STATUS(gpur_gemm_run(gemm, stream, 0, x, x, x, NULL, NULL), GPUR_INVALID_ARGUMENT);
    CHECK_STATUS(gpur_gemm_run(gemm, stream, 5, x, x, x, NULL, NULL), GPUR_INVALID_ARGUMENT);
    CHECK_MESSAGE("5 rows");
    CHECK_STATUS(gpur_gemm_run(gemm, stream, 4, x, NULL, x, NULL, NULL), GPUR_INVALID_ARGUMENT);
    CHECK_MESSAGE("matrix B");
    CHECK_STATUS(gpur_gemm_run(other, stream, 3, x, x, x, NULL, NULL), GPUR_INVALID_ARGUMENT);
    CHECK_MESSAGE("transposed");
    gpur_gemm_destroy(other), gpur_gemm_destroy(gemm), gpur_gemm_destroy(NULL);
    gpur_stream_destroy(stream);
    gpur_device_close(device);
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    RUN(impossible_shapes_are_refused);
    RUN(impossible_runs_are_refused);
    return test_main_end();
}
