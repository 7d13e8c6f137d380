/* SPDX-License-Identifier: MIT */
/* What is said where cuDNN cannot be used, on a device that is only pretended: to who asks for a convolution, and to
 * who asks for a product. */
#include "device/device_cuda.h"
#include "test.h"

static gpur_status opened = GPUR_UNAVAILABLE;
static int opens;

static gpur_status pretend_open(gpur_cuda_library *library)
{
    (void)library;
    opens++;
    return gpur_fail(opened, "cuDNN was not found. Searched for libcudnn.so.9");
}

static cudaError_t pretend_enter(const gpur_device *device, int *before)
{
    (void)device;
    *before = 0;
    return cudaSuccess;
}

static void pretend_leave(int before, cudaError_t error)
{
    (void)before, (void)error;
}

#define gpur_dnn_library_open pretend_open
#define gpur_cuda_enter pretend_enter
#define gpur_cuda_leave_quietly pretend_leave
#include "device/dnn_cuda.c"

static char said[640];
static int lines;

static void hear(void *user, const char *line)
{
    (void)user;
    lines++;
    snprintf(said, sizeof said, "%s", line);
}

static gpur_cuda cuda;
static gpur_device device;

static void begin(void)
{
    memset(&cuda, 0, sizeof cuda);
    memset(&device, 0, sizeof device);
    pthread_mutex_init(&cuda.math_mutex, NULL);
    device.backend_data = &cuda;
    device.config.log = hear;
    opens = lines = 0;
    said[0] = '\0';
}

static gpur_status ask(int for_conv)
{
    const gpur_conv_shape conv = {0};
    const gpur_gemm_shape product = {0};
    gpur_cudadnn_plan *plan = NULL;
    return gpur_cuda_dnn_plan(&device, for_conv ? &conv : NULL, for_conv ? NULL : &product, &plan);
}

TEST(each_is_told_how_its_own_work_goes)
{
    for (int first = 0; first < 2; first++) {
        begin();
        for (int i = 0; i < 4; i++) {
            const int for_conv = (first + i) % 2;
            CHECK_STATUS(ask(for_conv), GPUR_UNAVAILABLE);
            CHECK_MESSAGE("cuDNN cannot be used; ");
            CHECK_MESSAGE(for_conv ? "convolutions go by patches and matrix products" : "go by cuBLASLt alone");
        }
        pthread_mutex_destroy(&cuda.math_mutex);
    }
}

TEST(it_is_looked_for_and_logged_once_for_both)
{
    begin();
    for (int i = 0; i < 4; i++)
        CHECK_STATUS(ask(i % 2), GPUR_UNAVAILABLE);
    CHECK_EQUAL(opens, 1);
    CHECK_EQUAL(lines, 1);
    CHECK(strstr(said, "convolutions go by patches, and all matrix products by cuBLASLt: ") != NULL);
    CHECK(strstr(said, "cuDNN was not found. Searched for libcudnn.so.9") != NULL);
    pthread_mutex_destroy(&cuda.math_mutex);
}

TEST(no_memory_is_said_as_it_is)
{
    begin();
    opened = GPUR_OUT_OF_MEMORY;
    CHECK_STATUS(ask(0), GPUR_OUT_OF_MEMORY);
    opened = GPUR_UNAVAILABLE;
    pthread_mutex_destroy(&cuda.math_mutex);
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    RUN(each_is_told_how_its_own_work_goes);
    RUN(it_is_looked_for_and_logged_once_for_both);
    RUN(no_memory_is_said_as_it_is);
    return test_main_end();
}
