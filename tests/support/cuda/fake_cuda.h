/* SPDX-License-Identifier: MIT */
/*
 * A fake CUDA runtime, and faults of the real one. The linker gives the library these functions in place of CUDA's
 * (tests/cuda.cmake, which reads the names from the list below), so that every runtime call of the library is counted,
 * and the nth fails without being made. With `fake`, no call reaches CUDA: device memory is host memory, all work
 * runs immediately, kernels are the CPU's, and what CUDA refuses during a capture is refused. So the library's whole
 * CUDA code, except its kernels and NVIDIA's libraries, runs on a machine without a GPU.
 *
 * Faults are for programs of one thread; any number of threads may use the fake runtime. There is a fake cuBLASLt
 * module, and none for cuDNN: convolutions run as im2col.
 *
 * A call that CUDA refuses during a capture in the global mode makes that capture fail, as CUDA's does. Such calls are
 * those that take or give memory, wait, make a graph executable, choose an algorithm, and the first run of a product.
 */
#pragma once

#include <cuda_runtime_api.h>
#include <stdint.h>

/* Every function of the runtime that the library calls, except cudaStreamEndCapture, those that only return errors and
 * their texts, and those that only tests of a real GPU need: X(name, parameters, arguments). */
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
    X(cudaDeviceGetAttribute, (int *value, enum cudaDeviceAttr attribute, int device), (value, attribute, device))     \
    X(cudaFuncGetAttributes, (struct cudaFuncAttributes * attributes, const void *kernel), (attributes, kernel))       \
    X(cudaOccupancyMaxActiveBlocksPerMultiprocessor, (int *blocks, const void *kernel, int threads, size_t shared),    \
      (blocks, kernel, threads, shared))                                                                               \
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
    X(cudaEventQuery, (cudaEvent_t event), (event))                                                                    \
    X(cudaThreadExchangeStreamCaptureMode, (enum cudaStreamCaptureMode * mode), (mode))                                \
    X(cudaStreamBeginCapture, (cudaStream_t stream, enum cudaStreamCaptureMode mode), (stream, mode))                  \
    X(cudaGraphInstantiate, (cudaGraphExec_t * exec, cudaGraph_t graph, unsigned long long flags),                     \
      (exec, graph, flags))                                                                                            \
    X(cudaGraphUpload, (cudaGraphExec_t exec, cudaStream_t stream), (exec, stream))                                    \
    X(cudaGraphLaunch, (cudaGraphExec_t exec, cudaStream_t stream), (exec, stream))                                    \
    X(cudaGraphExecDestroy, (cudaGraphExec_t exec), (exec))                                                            \
    X(cudaGraphDestroy, (cudaGraph_t graph), (graph))                                                                  \
    X(cudaGraphGetNodes, (cudaGraph_t graph, cudaGraphNode_t * nodes, size_t * count), (graph, nodes, count))

#if CUDART_VERSION >= 12080
#define RUNTIME_NEW_LIST(X) X(cudaStreamGetDevice, (cudaStream_t stream, int *device), (stream, device))
#else
#define RUNTIME_NEW_LIST(X)
#endif

#define RUNTIME_LIST(X) RUNTIME_MEMORY_LIST(X) RUNTIME_DEVICE_LIST(X) RUNTIME_STREAM_LIST(X) RUNTIME_NEW_LIST(X)

typedef struct cuda_faults {
    int fake;
    const char *only; /* counts only calls of this name; NULL: all calls */
    int64_t fail_at;  /* number of the counted call that fails; 0: none */
    int for_ever;     /* 1: all later calls fail, too, whatever their name */
    cudaError_t error;

    int64_t calls;      /* counted so far */
    const char *failed; /* name of the first call that failed, or NULL */

    void (*on_call)(const char *name); /* called with the name of each call; may be NULL */
} cuda_faults;
extern cuda_faults faults;

/* Restarts counting; the nth counted call will fail. `only` may be NULL and nth 0. */
void cuda_faults_begin(const char *only, int64_t nth, cudaError_t error, int for_ever);
void cuda_faults_end(void); /* no call fails from now on */

/* The fake GPU; a change applies to devices opened afterwards. */
typedef struct fake_gpu {
    int major, multiprocessors, cooperative;
    int blocks_each;         /* resident blocks per multiprocessor of a kernel with a grid sync */
    int ptx;                 /* PTX version that the kernels were compiled for */
    int cooperative_threads; /* maximum threads per block of grid_sync_probe */
    int small_threads;       /* of window_set, which stands for a kernel with a small limit */
    int runs;                /* 0: kernels are only noted in fake_launch */
    int of_streams;          /* the number of the GPU whose all streams are; devices are of GPU 0 */
} fake_gpu;
extern fake_gpu fake;

/* The last launch. A test may set `attributes` beforehand, to detect that there was one. */
typedef struct seen_launch {
    unsigned blocks, threads, attributes;
    cudaLaunchAttribute attribute; /* the first one, if any */
} seen_launch;
extern seen_launch fake_launch;

/* The thread's last error, as cudaGetLastError returns it; also set by injected faults with a real runtime. */
extern _Thread_local cudaError_t fake_last_error;

/* The number of memory blocks, streams, events, graphs, executable graphs and plans that exist. */
int64_t fake_alive(void);

/* Begins (1) or ends (0) a fake capture in the global mode by a thread of the host program: what a capture forbids is
 * refused on all threads that have not set the relaxed mode. Returns 1 if something was refused since the beginning. */
int fake_global_capture(int on);
