/* SPDX-License-Identifier: MIT */
/* Opens and closes a CUDA device; its backend table. */
#include "device/cuda/cuda.h"

#include <stdio.h>
#include <stdlib.h>

/* The driver reports versions as 1000 major + 10 minor. */
static int major_of(int version)
{
    return version / 1000;
}
static int minor_of(int version)
{
    return version % 1000 / 10;
}

static gpur_status fail_no_gpu(const char *name)
{
    const char *const visible = getenv("CUDA_VISIBLE_DEVICES");
    return gpur_fail(GPUR_UNAVAILABLE, "no %s: the NVIDIA driver shows no GPU (CUDA_VISIBLE_DEVICES is %s%s%s)", name,
                     visible ? "\"" : "", visible ? visible : "not set", visible ? "\"" : "");
}

/* Without a driver cudaGetDeviceCount returns 35 (cudaErrorInsufficientDriver), not 100 (cudaErrorNoDevice); 34
 * (cudaErrorStubLibrary) comes from the libcuda stub that the toolkit ships for linking only. After any other error
 * there is a GPU that fails, and "auto" must not pass over it. */
static gpur_status fail_no_driver(const char *name, cudaError_t error)
{
    int driver = 0;
    (void)cudaGetLastError();
    const int has_version = cudaDriverGetVersion(&driver) == cudaSuccess && driver > 0;
    (void)cudaGetLastError();
    if (error == cudaErrorNoDevice)
        return fail_no_gpu(name);
    if (error != cudaErrorInsufficientDriver && error != cudaErrorStubLibrary)
        return gpur_fail(GPUR_DEVICE_ERROR, "%s: cudaGetDeviceCount: %s (%s, %d)%s", name, cudaGetErrorString(error),
                         cudaGetErrorName(error), (int)error,
                         error == cudaErrorInitializationError
                             ? "; CUDA cannot be used in a process that was forked from "
                               "one that had used it"
                             : "");
    if (has_version && driver < CUDART_VERSION)
        return gpur_fail(GPUR_UNAVAILABLE,
                         "no %s: the NVIDIA driver is too old: it knows CUDA %d.%d, and this build needs %d.%d (%s); "
                         "update the driver, or open \"cpu\"",
                         name, major_of(driver), minor_of(driver), major_of(CUDART_VERSION), minor_of(CUDART_VERSION),
                         cudaGetErrorString(error));
    return gpur_fail(GPUR_UNAVAILABLE,
                     "no %s: %s (cudaGetDeviceCount: %s, %d); this build needs a driver for CUDA %d.%d or later; "
                     "\"cpu\" works everywhere",
                     name, has_version ? "the NVIDIA driver does not answer" : "no NVIDIA driver was found",
                     cudaGetErrorString(error), (int)error, major_of(CUDART_VERSION), minor_of(CUDART_VERSION));
}

static gpur_status check_ordinal(const char *name, int ordinal)
{
    int count = 0;
    const cudaError_t error = cudaGetDeviceCount(&count);
    if (error != cudaSuccess)
        return fail_no_driver(name, error);
    if (count < 1)
        return fail_no_gpu(name);
    if (ordinal >= count)
        return gpur_fail(GPUR_UNAVAILABLE, "no %s: this machine has %d CUDA device%s, cuda:0 to cuda:%d", name, count,
                         count == 1 ? "" : "s", count - 1);
    return GPUR_OK;
}

static gpur_status describe(gpur_device *device)
{
    gpur_cuda *const cuda = gpur_cuda_of(device);
    struct cudaDeviceProp properties;
    int driver = 0, before;
    cudaError_t error = gpur_cuda_enter(device, &before);
    if (!error)
        error = cudaGetDeviceProperties(&properties, cuda->ordinal);
    if (!error)
        error = cudaDriverGetVersion(&driver);
    if (!error)
        error = cudaStreamCreateWithFlags(&cuda->zeroing, cudaStreamNonBlocking);
    GPUR_TRY(gpur_cuda_leave(before, error, "opening a CUDA device"));
    cuda->multiprocessors = properties.multiProcessorCount;
    cuda->has_dependent_launches = properties.major >= 9;
    device->traits.has_bf16 = properties.major >= 8;
    device->threads = properties.multiProcessorCount;
    snprintf(device->description, sizeof device->description,
             "%.64s, compute capability %d.%d, CUDA %d.%d, driver for %d.%d", properties.name, properties.major,
             properties.minor, major_of(CUDART_VERSION), minor_of(CUDART_VERSION), major_of(driver), minor_of(driver));
    return GPUR_OK;
}

static int init_mutexes(gpur_cuda *cuda)
{
    if (pthread_mutex_init(&cuda->math_mutex, NULL) != 0)
        return 0;
    if (pthread_mutex_init(&cuda->streams_mutex, NULL) == 0)
        return 1;
    pthread_mutex_destroy(&cuda->math_mutex);
    return 0;
}

static const gpur_device_traits traits = {
    .has_own_memory = 1,
    .has_native_streams = 1,
    .has_launch_overhead = 1,
    .has_warps = 1,
    .dlpack_type = 2,                  /* kDLCUDA */
    .im2col_bytes = (int64_t)64 << 20, /* a launch has work for all multiprocessors */
};

gpur_status gpur_cuda_open(gpur_device *device, int ordinal)
{
    GPUR_TRY(check_ordinal(device->name, ordinal));
    gpur_cuda *const cuda = (gpur_cuda *)gpur_host_alloc(device, sizeof *cuda);
    if (!cuda)
        return gpur_fail(GPUR_OUT_OF_MEMORY, "no host memory for a CUDA device: %zu bytes", sizeof *cuda);
    if (!init_mutexes(cuda)) {
        gpur_host_free(device, cuda, sizeof *cuda);
        return gpur_fail(GPUR_OUT_OF_MEMORY, "no mutex for a CUDA device");
    }
    cuda->ordinal = ordinal;
    device->backend_data = cuda;
    device->traits = traits;
    device->second_streams = 1;
    GPUR_TRY(describe(device));
    if (device->config.stream)
        GPUR_TRY(gpur_cuda_native_stream_check(device, device->config.stream, 1));
    const int may_have_them = cuda->has_dependent_launches;
    GPUR_TRY(gpur_cuda_load_kernels(device));
    if (may_have_them && !cuda->has_dependent_launches)
        gpur_cuda_log_once(device,
                           "the kernels run without dependent launches, which this GPU has: their code was "
                           "compiled for an older architecture (%s); configure with "
                           "-DGPUREPLAY_CUDA_ARCHITECTURES=native or =release",
                           GPUR_CUDA_ARCHITECTURES);
    return GPUR_OK;
}

void gpur_cuda_close(gpur_device *device)
{
    gpur_cuda *const cuda = gpur_cuda_of(device);
    int before;
    if (!cuda)
        return;
    cudaError_t error = gpur_cuda_enter(device, &before);
    if (!error) {
        gpur_cuda_dnn_close(device);
        gpur_cuda_library_close(&cuda->math);
        error = cuda->zeroing ? cudaStreamDestroy(cuda->zeroing) : cudaSuccess;
    }
    gpur_cuda_leave_quietly(before, error);
    pthread_mutex_destroy(&cuda->streams_mutex);
    pthread_mutex_destroy(&cuda->math_mutex);
    gpur_host_free(device, cuda, sizeof *cuda);
    device->backend_data = NULL;
}

#define ENTRY(type, name, arguments) .name = gpur_cuda_##name,
const gpur_backend gpur_backend_cuda = {GPUR_BACKEND_LIST(ENTRY) GPUR_BACKEND_CONV_LIST(ENTRY)};
