/* SPDX-License-Identifier: MIT */
/* A fake GPU whose memory is host memory. It runs the CPU's kernels, each launch as one block of one thread. */
#include "device/cuda/pretend/pretend.h"
#include "kernels/entries.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ALIGNMENT = 256, MULTIPROCESSORS = 8, DRIVER = CUDART_VERSION };
static const size_t total_bytes = (size_t)256 << 20;

typedef struct block {
    unsigned char *memory;
    size_t bytes;
    enum cudaMemoryType type;
    struct block *next;
} block;

static block *blocks;
static size_t used_bytes; /* of device memory */

/* Filled with 0xaa, so that the library cannot rely on zeroed memory. */
static cudaError_t take(void **memory, size_t bytes, enum cudaMemoryType type)
{
    if (pretend_refuses_unsafe())
        return cudaErrorStreamCaptureUnsupported;
    if (type == cudaMemoryTypeDevice && bytes > total_bytes - used_bytes)
        return cudaErrorMemoryAllocation;
    block *const b = (block *)calloc(1, sizeof *b);
    b->memory = (unsigned char *)aligned_alloc(ALIGNMENT, (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT);
    b->bytes = bytes, b->type = type, b->next = blocks;
    memset(b->memory, 0xaa, bytes);
    blocks = b;
    used_bytes += type == cudaMemoryTypeDevice ? bytes : 0;
    *memory = b->memory;
    pretend_count(1);
    return cudaSuccess;
}

static cudaError_t give(void *memory, enum cudaMemoryType type)
{
    block **link = &blocks;
    while (*link && (*link)->memory != memory)
        link = &(*link)->next;
    block *const b = *link;
    if (pretend_refuses_unsafe() || !memory)
        return memory ? cudaErrorStreamCaptureUnsupported : cudaSuccess;
    if (!b || b->type != type)
        return cudaErrorInvalidValue;
    *link = b->next;
    used_bytes -= type == cudaMemoryTypeDevice ? b->bytes : 0;
    free(b->memory);
    free(b);
    pretend_count(-1);
    return cudaSuccess;
}

cudaError_t pretend_cudaMalloc(void **memory, size_t bytes)
{
    return take(memory, bytes, cudaMemoryTypeDevice);
}

cudaError_t pretend_cudaHostAlloc(void **memory, size_t bytes, unsigned flags)
{
    (void)flags;
    return take(memory, bytes, cudaMemoryTypeHost);
}

cudaError_t pretend_cudaFree(void *memory)
{
    return give(memory, cudaMemoryTypeDevice);
}

cudaError_t pretend_cudaFreeHost(void *memory)
{
    return give(memory, cudaMemoryTypeHost);
}

cudaError_t pretend_cudaMemGetInfo(size_t *available, size_t *total)
{
    *available = total_bytes - used_bytes;
    *total = total_bytes;
    return cudaSuccess;
}

cudaError_t pretend_cudaPointerGetAttributes(struct cudaPointerAttributes *attributes, const void *memory)
{
    const block *b = blocks;
    memset(attributes, 0, sizeof *attributes);
    while (b && ((uintptr_t)memory < (uintptr_t)b->memory || (uintptr_t)memory >= (uintptr_t)b->memory + b->bytes))
        b = b->next;
    attributes->type = b ? b->type : cudaMemoryTypeUnregistered;
    return cudaSuccess;
}

typedef struct move {
    void *to;
    const void *from; /* NULL: fill with `byte` */
    int byte;
    size_t bytes;
} move;

static void run_move(const void *payload)
{
    const move *const m = (const move *)payload;
    if (m->from)
        memcpy(m->to, m->from, m->bytes);
    else
        memset(m->to, m->byte, m->bytes);
}

cudaError_t pretend_cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind,
                                    cudaStream_t stream)
{
    const move m = {to, from, 0, bytes};
    return kind == cudaMemcpyDefault ? pretend_enqueue(stream, cudaGraphNodeTypeMemcpy, run_move, &m, sizeof m)
                                     : cudaErrorInvalidMemcpyDirection;
}

cudaError_t pretend_cudaMemsetAsync(void *memory, int byte, size_t bytes, cudaStream_t stream)
{
    const move m = {memory, NULL, byte, bytes};
    return pretend_enqueue(stream, cudaGraphNodeTypeMemset, run_move, &m, sizeof m);
}

cudaError_t pretend_cudaGetDeviceCount(int *count)
{
    *count = 1;
    return cudaSuccess;
}

cudaError_t pretend_cudaGetDevice(int *device)
{
    *device = 0;
    return cudaSuccess;
}

cudaError_t pretend_cudaSetDevice(int device)
{
    return device == 0 ? cudaSuccess : cudaErrorInvalidDevice;
}

cudaError_t pretend_cudaDriverGetVersion(int *version)
{
    *version = DRIVER;
    return cudaSuccess;
}

cudaError_t pretend_cudaGetDeviceProperties(struct cudaDeviceProp *properties, int device)
{
    memset(properties, 0, sizeof *properties);
    snprintf(properties->name, sizeof properties->name, "a pretended GPU");
    properties->multiProcessorCount = MULTIPROCESSORS;
    properties->major = 9;
    return pretend_cudaSetDevice(device);
}

/* The fake GPU has every attribute, for example cooperative launches. */
cudaError_t pretend_cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int device)
{
    (void)attribute;
    *value = 1;
    return pretend_cudaSetDevice(device);
}

static int kernel_of(const void *entry)
{
    int kernel = 0;
    while (kernel < GPUR_KERNEL_COUNT && gpur_cuda_entries[kernel] != entry)
        kernel++;
    return kernel;
}

cudaError_t pretend_cudaFuncGetAttributes(struct cudaFuncAttributes *attributes, const void *entry)
{
    memset(attributes, 0, sizeof *attributes);
    attributes->maxThreadsPerBlock = 1024;
    attributes->ptxVersion = attributes->binaryVersion = 90;
    return kernel_of(entry) < GPUR_KERNEL_COUNT ? cudaSuccess : cudaErrorInvalidDeviceFunction;
}

cudaError_t pretend_cudaFuncSetAttribute(const void *entry, enum cudaFuncAttribute attribute, int value)
{
    (void)attribute, (void)value;
    return kernel_of(entry) < GPUR_KERNEL_COUNT ? cudaSuccess : cudaErrorInvalidDeviceFunction;
}

cudaError_t pretend_cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *count, const void *entry, int threads,
                                                                  size_t shared)
{
    (void)entry, (void)threads, (void)shared;
    *count = 1;
    return cudaSuccess;
}

cudaError_t pretend_cudaOccupancyMaxActiveClusters(int *clusters, const void *entry, const cudaLaunchConfig_t *config)
{
    (void)entry;
    *clusters = config->gridDim.x <= MULTIPROCESSORS;
    return cudaSuccess;
}

typedef struct launch {
    int kernel;
    _Alignas(16) unsigned char args[GPUR_MAX_ARGS];
} launch;

static void run_launch(const void *payload)
{
    const launch *const l = (const launch *)payload;
    gpur_cpu_entries_v1[l->kernel](0, 1, l->args);
}

cudaError_t pretend_cudaLaunchKernelExC(const cudaLaunchConfig_t *config, const void *entry, void **arguments)
{
#define SIZE(name) sizeof(gpur_##name##_args),
    static const size_t sizes[GPUR_KERNEL_COUNT] = {GPUR_KERNEL_LIST(SIZE)};
    launch l = {.kernel = kernel_of(entry)};
    if (l.kernel == GPUR_KERNEL_COUNT) /* not a kernel of the library */
        return cudaErrorNotSupported;
    if (config->blockDim.x == 0 || config->blockDim.x % 32 != 0)
        return cudaErrorInvalidConfiguration;
    memcpy(l.args, arguments[0], sizes[l.kernel]);
    return pretend_enqueue(config->stream, cudaGraphNodeTypeKernel, run_launch, &l, sizeof l);
}
