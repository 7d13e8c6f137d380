/* SPDX-License-Identifier: MIT */
/* Launches of the probes, and the copies that the library does not make. */
#include "bench/device/probes_cuda.h"

#include <inttypes.h>
#include <stdlib.h>

enum { PROBE_THREADS = 256, ROWS_A_BLOCK = PROBE_THREADS / 16, PIXEL_ROWS = 84 * 84 / 4 };

gpur_status probe_needs_cuda(const gpur_device *device)
{
    if (gpur_device_is_cuda(device))
        return GPUR_OK;
    return gpur_fail(GPUR_UNAVAILABLE, "the device is %s; it must be a CUDA device", gpur_device_name(device));
}

gpur_status probe_needs_dependent_launches(gpur_device *device)
{
    GPUR_TRY(probe_needs_cuda(device));
    if (gpur_cuda_of(device)->has_clusters)
        return GPUR_OK;
    return gpur_fail(GPUR_UNAVAILABLE,
                     "dependent launches want a GPU, and kernels, of compute capability 9.0 or later");
}

gpur_status probe_needs_cluster(gpur_device *device, int kernel, int32_t blocks)
{
    GPUR_TRY(probe_needs_cuda(device));
    if (blocks < 32 && (gpur_cuda_of(device)->kernels[kernel].clusters >> blocks & 1))
        return GPUR_OK;
    return gpur_fail(GPUR_UNAVAILABLE, "this GPU holds no cluster of %d of its blocks", (int)blocks);
}

/* What this GPU, its driver or this toolkit has not; any other error is a failure. */
static int is_absence(cudaError_t error)
{
    static const cudaError_t absences[] = {cudaErrorNotSupported,       cudaErrorCooperativeLaunchTooLarge,
                                           cudaErrorInvalidClusterSize, cudaErrorUnsupportedLimit,
                                           cudaErrorInsufficientDriver, cudaErrorCallRequiresNewerDriver};
    for (size_t i = 0; i < sizeof absences / sizeof *absences; i++)
        if (error == absences[i])
            return 1;
    return 0;
}

gpur_status probe_status(cudaError_t error, const char *call)
{
    if (error == cudaSuccess)
        return GPUR_OK;
    gpur_cuda_forget(error);
    return gpur_fail(is_absence(error) ? GPUR_UNAVAILABLE : GPUR_DEVICE_ERROR, "%s: %s (%s, %d)", call,
                     cudaGetErrorString(error), cudaGetErrorName(error), (int)error);
}

gpur_status probe_leave(int before, cudaError_t error, const char *call)
{
    const gpur_status back = gpur_cuda_leave(before, cudaSuccess, call);
    return error ? probe_status(error, call) : back;
}

gpur_status probe_launch(gpur_stream *stream, int probe, gpur_grid grid, int together, const void *args)
{
    cudaLaunchAttribute attribute = {.id = cudaLaunchAttributeCooperative, .val = {.cooperative = 1}};
    const cudaLaunchConfig_t config = {.gridDim = {(unsigned)grid.blocks, 1, 1},
                                       .blockDim = {(unsigned)grid.threads, 1, 1},
                                       .stream = gpur_cuda_native(stream),
                                       .attrs = &attribute,
                                       .numAttrs = together ? 1 : 0};
    void *parameters[] = {(void *)(uintptr_t)args}; /* read only, though the interface has no const */
    int before;
    cudaError_t error = gpur_cuda_enter(gpur_stream_device(stream), &before);
    if (!error)
        error = cudaLaunchKernelExC(&config, probe_entries[probe], parameters);
    return probe_leave(before, error, "a probe");
}

static int64_t blocks_for(int64_t items, int64_t each)
{
    return (items + each - 1) / each;
}

gpur_status probe_barrier(gpur_stream *stream, int blocks, int threads, const probe_barrier_args *args)
{
    const gpur_grid grid = {.blocks = blocks, .threads = threads};
    GPUR_TRY(probe_needs_cuda(gpur_stream_device(stream)));
    GPUR_TRY(gpur_fill(stream, args->arrived, 0, sizeof *args->arrived));
    return probe_launch(stream, ID_probe_barrier, grid, 1, args);
}

gpur_status probe_rows(gpur_stream *stream, const probe_rows_args *args)
{
    const gpur_grid grid = {.blocks = blocks_for(args->batch, ROWS_A_BLOCK), .threads = PROBE_THREADS};
    GPUR_TRY(probe_needs_cuda(gpur_stream_device(stream)));
    return probe_launch(stream, ID_probe_rows, grid, 0, args);
}

gpur_status probe_pixels(gpur_stream *stream, const probe_pixels_args *args)
{
    const gpur_grid grid = {.blocks = blocks_for(args->batch * PIXEL_ROWS, PROBE_THREADS), .threads = PROBE_THREADS};
    GPUR_TRY(probe_needs_cuda(gpur_stream_device(stream)));
    return probe_launch(stream, ID_probe_pixels, grid, 0, args);
}

gpur_status probe_copy_pitched(gpur_stream *stream, const probe_pitched *copy)
{
    int before;
    GPUR_TRY(probe_needs_cuda(gpur_stream_device(stream)));
    cudaError_t error = gpur_cuda_enter(gpur_stream_device(stream), &before);
    if (!error)
        error = cudaMemcpy2DAsync(copy->to, (size_t)copy->to_pitch, copy->from, (size_t)copy->from_pitch,
                                  (size_t)copy->bytes, (size_t)copy->rows, cudaMemcpyDefault, gpur_cuda_native(stream));
    return probe_leave(before, error, "cudaMemcpy2DAsync");
}

#if CUDART_VERSION >= 13000
static cudaError_t copy_batch(cudaStream_t stream, size_t count, void *const *to, const void *const *from,
                              size_t *sizes, size_t bytes)
{
    struct cudaMemcpyAttributes attributes = {.srcAccessOrder = cudaMemcpySrcAccessOrderStream};
    size_t first = 0;
    for (size_t i = 0; i < count; i++)
        sizes[i] = bytes;
    return cudaMemcpyBatchAsync(to, from, sizes, count, &attributes, &first, 1, stream);
}

gpur_status probe_copy_batch(gpur_stream *stream, int64_t count, void *const *to, const void *const *from,
                             int64_t bytes)
{
    int before;
    GPUR_TRY(probe_needs_cuda(gpur_stream_device(stream)));
    size_t *const sizes = (size_t *)calloc((size_t)count, sizeof *sizes);
    if (!sizes)
        return gpur_fail(GPUR_OUT_OF_MEMORY, "no host memory for the sizes of %" PRId64 " copies", count);
    cudaError_t error = gpur_cuda_enter(gpur_stream_device(stream), &before);
    if (!error)
        error = copy_batch(gpur_cuda_native(stream), (size_t)count, to, from, sizes, (size_t)bytes);
    free(sizes);
    return probe_leave(before, error, "cudaMemcpyBatchAsync");
}
#else
gpur_status probe_copy_batch(gpur_stream *stream, int64_t count, void *const *to, const void *const *from,
                             int64_t bytes)
{
    (void)stream, (void)count, (void)to, (void)from, (void)bytes;
    return gpur_fail(GPUR_UNAVAILABLE, "batches of copies are of CUDA 13.0 or later; this build is of %d.%d",
                     CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10);
}
#endif
