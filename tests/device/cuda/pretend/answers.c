/* SPDX-License-Identifier: MIT */
#include "device/cuda/pretend/answers.h"

#include "kernels/entries.h"

#include <string.h>

static gpu_kind gpu;
static int allowed; /* clusters of more than 8 blocks are enabled */
seen_launch launched;

void answer_as(gpu_kind what)
{
    gpu = what;
    allowed = 0;
}

#define WRAPPED_(name) __wrap_##name
#define WRAPPED(name) WRAPPED_(name) /* two steps, because some names are macros */
#define SUCCEEDS(name, ...)                                                                                            \
    cudaError_t WRAPPED(name)(__VA_ARGS__);                                                                            \
    cudaError_t WRAPPED(name)(__VA_ARGS__)
#define UNUSED __attribute__((unused))

SUCCEEDS(cudaGetDeviceCount, int *count)
{
    *count = 1;
    return cudaSuccess;
}
SUCCEEDS(cudaGetDevice, int *device)
{
    *device = 0;
    return cudaSuccess;
}
SUCCEEDS(cudaDriverGetVersion, int *version)
{
    *version = CUDART_VERSION;
    return cudaSuccess;
}
SUCCEEDS(cudaGetDeviceProperties, struct cudaDeviceProp *properties, int device UNUSED)
{
    memset(properties, 0, sizeof *properties);
    strcpy(properties->name, "a kind of GPU");
    properties->major = gpu.major;
    properties->multiProcessorCount = gpu.multiprocessors;
    return cudaSuccess;
}
SUCCEEDS(cudaDeviceGetAttribute, int *value, enum cudaDeviceAttr attribute, int device UNUSED)
{
    *value = attribute == cudaDevAttrCooperativeLaunch ? gpu.cooperative : -1;
    return cudaSuccess;
}
SUCCEEDS(cudaFuncGetAttributes, struct cudaFuncAttributes *attributes, const void *entry)
{
    memset(attributes, 0, sizeof *attributes);
    attributes->maxThreadsPerBlock = entry == gpur_cuda_entries[GPUR_KERNEL_ID_meet_probe] ? ANSWERS_MEET_THREADS
                                     : entry == gpur_cuda_entries[GPUR_KERNEL_ID_window_set]
                                         ? ANSWERS_SMALL_THREADS + 17
                                         : 1024;
    attributes->ptxVersion = gpu.ptx;
    return cudaSuccess;
}
SUCCEEDS(cudaFuncSetAttribute, const void *entry UNUSED, enum cudaFuncAttribute attribute, int value)
{
    allowed = attribute == cudaFuncAttributeNonPortableClusterSizeAllowed && value && gpu.nonportable;
    return allowed ? cudaSuccess : cudaErrorInvalidValue;
}
SUCCEEDS(cudaOccupancyMaxActiveBlocksPerMultiprocessor, int *blocks, const void *entry UNUSED, int threads,
         size_t shared UNUSED)
{
    *blocks = threads <= ANSWERS_MEET_THREADS ? gpu.blocks_each : 0;
    return cudaSuccess;
}
SUCCEEDS(cudaOccupancyMaxActiveClusters, int *clusters, const void *entry UNUSED, const cudaLaunchConfig_t *config)
{
    const unsigned blocks = config->attrs[0].val.clusterDim.x;
    if (blocks > 8 && !allowed)
        return cudaErrorInvalidClusterSize;
    *clusters = (int)blocks <= gpu.largest_cluster && config->gridDim.x == blocks;
    return cudaSuccess;
}
SUCCEEDS(cudaLaunchKernelExC, const cudaLaunchConfig_t *config, const void *entry UNUSED, void **arguments UNUSED)
{
    launched.blocks = config->gridDim.x, launched.threads = config->blockDim.x;
    launched.attributes = config->numAttrs;
    if (config->numAttrs)
        launched.attribute = config->attrs[0];
    return cudaSuccess;
}
SUCCEEDS(cudaStreamCreateWithFlags, cudaStream_t *stream, unsigned flags UNUSED)
{
    *stream = (cudaStream_t)&launched;
    return cudaSuccess;
}
SUCCEEDS(cudaStreamDestroy, cudaStream_t stream UNUSED)
{
    return cudaSuccess;
}
SUCCEEDS(cudaStreamSynchronize, cudaStream_t stream UNUSED)
{
    return cudaSuccess;
}
SUCCEEDS(cudaStreamWaitEvent, cudaStream_t stream UNUSED, cudaEvent_t event UNUSED, unsigned flags UNUSED)
{
    return cudaSuccess;
}
SUCCEEDS(cudaEventCreateWithFlags, cudaEvent_t *event, unsigned flags UNUSED)
{
    *event = (cudaEvent_t)&launched;
    return cudaSuccess;
}
SUCCEEDS(cudaEventDestroy, cudaEvent_t event UNUSED)
{
    return cudaSuccess;
}
SUCCEEDS(cudaEventRecord, cudaEvent_t event UNUSED, cudaStream_t stream UNUSED)
{
    return cudaSuccess;
}
SUCCEEDS(cudaMemcpyAsync, void *to UNUSED, const void *from UNUSED, size_t bytes UNUSED,
         enum cudaMemcpyKind kind UNUSED, cudaStream_t stream UNUSED)
{
    return cudaSuccess;
}
SUCCEEDS(cudaMemsetAsync, void *memory UNUSED, int byte UNUSED, size_t bytes UNUSED, cudaStream_t stream UNUSED)
{
    return cudaSuccess;
}
