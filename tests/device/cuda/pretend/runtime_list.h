/* SPDX-License-Identifier: MIT */
/*
 * Every function of the CUDA runtime that the library calls, except those that only return error texts. The linker
 * replaces them with the functions of faults.c; tests/cuda.cmake must list the same names.
 */
#ifndef GPUR_DEVICE_CUDA_PRETEND_RUNTIME_LIST_H
#define GPUR_DEVICE_CUDA_PRETEND_RUNTIME_LIST_H

/* X(name, parameters, arguments) */
#define RUNTIME_MEMORY_LIST(X)                                                                                         \
    X(cudaMalloc, (void **memory, size_t bytes), (memory, bytes))                                                      \
    X(cudaHostAlloc, (void **memory, size_t bytes, unsigned flags), (memory, bytes, flags))                            \
    X(cudaFree, (void *memory), (memory))                                                                              \
    X(cudaFreeHost, (void *memory), (memory))                                                                          \
    X(cudaMemGetInfo, (size_t * available, size_t * total), (available, total))                                        \
    X(cudaPointerGetAttributes, (struct cudaPointerAttributes * attributes, const void *memory), (attributes, memory)) \
    X(cudaMemcpyAsync, (void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind, cudaStream_t stream),      \
      (to, from, bytes, kind, stream))                                                                                 \
    X(cudaMemsetAsync, (void *memory, int byte, size_t bytes, cudaStream_t stream), (memory, byte, bytes, stream))

#define RUNTIME_DEVICE_LIST(X)                                                                                         \
    X(cudaGetDeviceCount, (int *count), (count))                                                                       \
    X(cudaGetDevice, (int *device), (device))                                                                          \
    X(cudaSetDevice, (int device), (device))                                                                           \
    X(cudaDriverGetVersion, (int *version), (version))                                                                 \
    X(cudaGetDeviceProperties, (struct cudaDeviceProp * properties, int device), (properties, device))                 \
    X(cudaDeviceGetAttribute, (int *value, enum cudaDeviceAttr attribute, int device), (value, attribute, device))

#define RUNTIME_KERNEL_LIST(X)                                                                                         \
    X(cudaFuncGetAttributes, (struct cudaFuncAttributes * attributes, const void *kernel), (attributes, kernel))       \
    X(cudaFuncSetAttribute, (const void *kernel, enum cudaFuncAttribute attribute, int value),                         \
      (kernel, attribute, value))                                                                                      \
    X(cudaOccupancyMaxActiveBlocksPerMultiprocessor, (int *blocks, const void *kernel, int threads, size_t shared),    \
      (blocks, kernel, threads, shared))                                                                               \
    X(cudaOccupancyMaxActiveClusters, (int *clusters, const void *kernel, const cudaLaunchConfig_t *config),           \
      (clusters, kernel, config))                                                                                      \
    X(cudaLaunchKernelExC, (const cudaLaunchConfig_t *config, const void *kernel, void **arguments),                   \
      (config, kernel, arguments))

#define RUNTIME_STREAM_LIST(X)                                                                                         \
    X(cudaStreamCreateWithFlags, (cudaStream_t * stream, unsigned flags), (stream, flags))                             \
    X(cudaStreamDestroy, (cudaStream_t stream), (stream))                                                              \
    X(cudaStreamSynchronize, (cudaStream_t stream), (stream))                                                          \
    X(cudaStreamIsCapturing, (cudaStream_t stream, enum cudaStreamCaptureStatus * status), (stream, status))           \
    X(cudaStreamWaitEvent, (cudaStream_t stream, cudaEvent_t event, unsigned flags), (stream, event, flags))           \
    X(cudaEventCreateWithFlags, (cudaEvent_t * event, unsigned flags), (event, flags))                                 \
    X(cudaEventDestroy, (cudaEvent_t event), (event))                                                                  \
    X(cudaEventRecord, (cudaEvent_t event, cudaStream_t stream), (event, stream))                                      \
    X(cudaEventSynchronize, (cudaEvent_t event), (event))                                                              \
    X(cudaEventQuery, (cudaEvent_t event), (event))

#define RUNTIME_GRAPH_LIST(X)                                                                                          \
    X(cudaThreadExchangeStreamCaptureMode, (enum cudaStreamCaptureMode * mode), (mode))                                \
    X(cudaStreamBeginCapture, (cudaStream_t stream, enum cudaStreamCaptureMode mode), (stream, mode))                  \
    X(cudaGraphInstantiate, (cudaGraphExec_t * exec, cudaGraph_t graph, unsigned long long flags),                     \
      (exec, graph, flags))                                                                                            \
    X(cudaGraphUpload, (cudaGraphExec_t exec, cudaStream_t stream), (exec, stream))                                    \
    X(cudaGraphLaunch, (cudaGraphExec_t exec, cudaStream_t stream), (exec, stream))                                    \
    X(cudaGraphExecDestroy, (cudaGraphExec_t exec), (exec))                                                            \
    X(cudaGraphDestroy, (cudaGraph_t graph), (graph))                                                                  \
    X(cudaGraphGetNodes, (cudaGraph_t graph, cudaGraphNode_t * nodes, size_t * count), (graph, nodes, count))          \
    X(cudaGraphNodeGetType, (cudaGraphNode_t node, enum cudaGraphNodeType * type), (node, type))

#define RUNTIME_LIST(X)                                                                                                \
    RUNTIME_MEMORY_LIST(X)                                                                                             \
    RUNTIME_DEVICE_LIST(X)                                                                                             \
    RUNTIME_KERNEL_LIST(X)                                                                                             \
    RUNTIME_STREAM_LIST(X)                                                                                             \
    RUNTIME_GRAPH_LIST(X)

#endif
