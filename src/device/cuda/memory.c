/* SPDX-License-Identifier: MIT */
/* Device memory, pinned host memory, copies and fills. */
#include "device/cuda/cuda.h"

#include <string.h>

/* Refuses sizes larger than the device before cudaMalloc sees them, so that no driver has to round them up. cudaMalloc
 * aligns to at least 256 bytes. cudaMemset would run on the legacy stream, which our non-blocking streams do not wait
 * for. */
static cudaError_t allocate(int64_t bytes, cudaStream_t zeroing, void **memory)
{
    const enum cudaStreamCaptureMode mode = gpur_cuda_relax();
    size_t available, total;
    cudaError_t error = cudaMemGetInfo(&available, &total);
    if (!error && (uint64_t)bytes > total)
        error = cudaErrorMemoryAllocation;
    if (!error)
        error = cudaMalloc(memory, (size_t)bytes);
    if (!error)
        error = cudaMemsetAsync(*memory, 0, (size_t)bytes, zeroing);
    if (!error)
        error = cudaStreamSynchronize(zeroing);
    if (error && *memory) {
        (void)cudaFree(*memory);
        *memory = NULL;
    }
    gpur_cuda_unrelax(mode);
    return error;
}

static cudaError_t allocate_pinned(int64_t bytes, void **memory)
{
    const enum cudaStreamCaptureMode mode = gpur_cuda_relax();
    const cudaError_t error = cudaHostAlloc(memory, (size_t)bytes, cudaHostAllocPortable);
    gpur_cuda_unrelax(mode);
    if (!error)
        memset(*memory, 0, (size_t)bytes);
    return error;
}

static void free_memory(gpur_device *device, void *memory, int is_pinned)
{
    int before;
    cudaError_t error = gpur_cuda_enter(device, &before);
    if (!error) {
        const enum cudaStreamCaptureMode mode = gpur_cuda_relax();
        error = is_pinned ? cudaFreeHost(memory) : cudaFree(memory);
        gpur_cuda_unrelax(mode);
    }
    gpur_cuda_leave_quietly(before, error);
}

gpur_status gpur_cuda_memory_alloc(gpur_device *device, int64_t bytes, void **memory)
{
    *memory = NULL;
    GPUR_CUDA_RETURN(device, allocate(bytes, gpur_cuda_of(device)->zeroing, memory), "allocating device memory");
}

void gpur_cuda_memory_free(gpur_device *device, void *memory, int64_t bytes)
{
    (void)bytes;
    free_memory(device, memory, 0);
}

gpur_status gpur_cuda_pinned_alloc(gpur_device *device, int64_t bytes, void **memory)
{
    *memory = NULL;
    GPUR_CUDA_RETURN(device, allocate_pinned(bytes, memory), "cudaHostAlloc");
}

void gpur_cuda_pinned_free(gpur_device *device, void *memory, int64_t bytes)
{
    (void)bytes;
    free_memory(device, memory, 1);
}

gpur_status gpur_cuda_memory_available(gpur_device *device, int64_t *total, int64_t *available)
{
    size_t all = 0, free_now = 0;
    int before;
    cudaError_t error = gpur_cuda_enter(device, &before);
    if (!error)
        error = cudaMemGetInfo(&free_now, &all);
    *total = (int64_t)all;
    *available = (int64_t)free_now;
    return gpur_cuda_leave(before, error, "cudaMemGetInfo");
}

/* Managed memory can be read from any device; memory of another GPU only with peer access, which is the host program's
 * choice. */
gpur_status gpur_cuda_memory_locate(gpur_device *device, const void *memory, int *on_device)
{
    struct cudaPointerAttributes attributes;
    int before;
    cudaError_t error = gpur_cuda_enter(device, &before);
    if (!error)
        error = cudaPointerGetAttributes(&attributes, memory);
    GPUR_TRY(gpur_cuda_leave(before, error, "cudaPointerGetAttributes"));
    GPUR_REQUIRE(attributes.type != cudaMemoryTypeDevice || attributes.device == gpur_cuda_of(device)->ordinal,
                 "%p is memory of cuda:%d; it must be memory of %s or of the host", memory, attributes.device,
                 device->name);
    *on_device = attributes.type == cudaMemoryTypeDevice || attributes.type == cudaMemoryTypeManaged;
    return GPUR_OK;
}

/* With unified addressing CUDA infers the direction. Copies from or to pageable host memory are staged by the driver
 * and are not asynchronous. */
gpur_status gpur_cuda_copy(gpur_stream *stream, void *to, const void *from, int64_t bytes)
{
    GPUR_CUDA_RETURN(stream->device,
                     cudaMemcpyAsync(to, from, (size_t)bytes, cudaMemcpyDefault, gpur_cuda_native(stream)),
                     "cudaMemcpyAsync");
}

gpur_status gpur_cuda_fill(gpur_stream *stream, void *memory, int byte, int64_t bytes)
{
    GPUR_CUDA_RETURN(stream->device, cudaMemsetAsync(memory, byte, (size_t)bytes, gpur_cuda_native(stream)),
                     "cudaMemsetAsync");
}
