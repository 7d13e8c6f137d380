/* SPDX-License-Identifier: MIT */
/*
 * Shared declarations of the CUDA device. Every CUDA call stands between gpur_cuda_enter and gpur_cuda_leave, which
 * make our device current for the calling thread and then restore the device that was current before:
 *
 *   int before;
 *   cudaError_t error = gpur_cuda_enter(device, &before);
 *   if (!error)
 *       error = cudaMalloc(&memory, size);
 *   return gpur_cuda_leave(before, error, "cudaMalloc");
 *
 * If our device is current already (with one GPU: always) this costs one read of a thread-local number.
 */
#pragma once

#include "device/backend.h"
#include "device/cuda/modules/cudnn.h"
#include "device/cuda/modules/cublaslt.h"
#include "device/device.h"

#include <cuda_runtime_api.h>
#include <pthread.h>

typedef struct gpur_cuda_stream gpur_cuda_stream;
struct gpur_cuda_stream {
    gpur_stream base;
    cudaStream_t native;
    int owned;               /* 0: the caller's stream */
    int listed;              /* 1: in the device's list of streams */
    atomic_int after_kernel; /* 1: the last operation is a kernel of ours, which a dependent launch may follow */
    gpur_cuda_stream *next;  /* in the device's list of streams */
};

/* Launch limits of a kernel, determined when the device is opened. */
typedef struct gpur_cuda_kernel {
    int32_t max_threads;     /* per block; a multiple of 32 */
    int64_t resident_blocks; /* of a kernel with a grid sync: how many can run at the same time; 0: launches have one */
} gpur_cuda_kernel;

typedef struct gpur_cuda_dnn_entry gpur_cuda_dnn_entry;

enum { GPUR_CUDA_LOGGED = 64 };

/* device->backend_data */
typedef struct gpur_cuda {
    int ordinal;
    int multiprocessors;
    int has_dependent_launches; /* they work: compute capability >= 9.0, kernels built for it */
    gpur_cuda_kernel kernels[GPUR_KERNEL_COUNT];
    pthread_mutex_t streams_mutex;
    gpur_cuda_stream *streams;                 /* linked list of the streams that gpur_device_sync waits for */
    cudaStream_t zeroing;                      /* zeroes new memory; the legacy stream would wait for the caller's
                                                  streams */
    pthread_mutex_t math_mutex;                /* protects the members below, except `logged` */
    gpur_cuda_library math;                    /* cuBLASLt, opened when the first GEMM is planned */
    gpur_cuda_library dnn;                     /* cuDNN, opened for the first plan; its handle is for one thread at a
                                                  time */
    int cudnn_unavailable;                     /* 1: opening cuDNN failed; that was logged, and it is not tried again */
    gpur_cuda_dnn_entry *dnn_plans;            /* linked list, most recently used first */
    _Atomic uint64_t logged[GPUR_CUDA_LOGGED]; /* hashes of the lines that gpur_cuda_log_once has logged; 0: free */
} gpur_cuda;

gpur_cuda *gpur_cuda_of(const gpur_device *device);
/* Returns the cudaStream_t and clears after_kernel: the caller may enqueue anything, so the next kernel must not use a
 * dependent launch. */
cudaStream_t gpur_cuda_native(gpur_stream *stream);

/* Makes our device current. On failure *before is -1, so that gpur_cuda_leave restores nothing. */
cudaError_t gpur_cuda_enter(const gpur_device *device, int *before);
/* Restores the caller's device if that is possible, and turns the `error` of `call` into a status with CUDA's error
 * text. */
gpur_status gpur_cuda_leave(int before, cudaError_t error, const char *call);
/* Like gpur_cuda_leave, for void functions: leaves the thread's last error text unchanged. */
void gpur_cuda_leave_quietly(int before, cudaError_t error);

/* GPUR_OUT_OF_MEMORY for cudaErrorMemoryAllocation, else GPUR_DEVICE_ERROR. Calls gpur_cuda_forget. */
gpur_status gpur_cuda_status(cudaError_t error, const char *call);
/* If `error` is one, clears CUDA's last error, where the host program would find ours at its next check. After a
 * success nothing is cleared, so a pending error of the host program stays. */
void gpur_cuda_forget(cudaError_t error);

/*
 * While this thread captures a stream, or any thread captures one in the global mode, CUDA refuses calls that may wait
 * for the whole device (allocating, freeing, opening a library, loading code) or for a part of it (waiting for a
 * stream, querying an event or waiting for it), and such a call invalidates the capture. Such calls of ours never
 * concern the captured stream; between gpur_cuda_relax and gpur_cuda_unrelax they are allowed.
 */
enum cudaStreamCaptureMode gpur_cuda_relax(void);
void gpur_cuda_unrelax(enum cudaStreamCaptureMode before);

/* Logs each distinct line only once per device: every new learner finds the same things missing again. */
void gpur_cuda_log_once(const gpur_device *device, const char *format, ...) GPUR_PRINTF(2, 3);

/* The same for all copies. */
#define gpur_cuda_copy_nt gpur_cuda_copy

/* clang-format off */
#define GPUR_DECLARE_CUDA(type, name, arguments) type gpur_cuda_##name arguments;
GPUR_BACKEND_LIST(GPUR_DECLARE_CUDA)
GPUR_BACKEND_CONV_LIST(GPUR_DECLARE_CUDA)
/* clang-format on */

gpur_status gpur_cuda_load_kernels(gpur_device *device);

/*
 * The body of a function of one CUDA call on the device. `call` is an expression of type cudaError_t, `what` its
 * name in the error text.
 */
#define GPUR_CUDA_RETURN(device, call, what)                                                                           \
    do {                                                                                                               \
        int before_;                                                                                                   \
        cudaError_t error_ = gpur_cuda_enter(device, &before_);                                                        \
        if (!error_)                                                                                                   \
            error_ = (call);                                                                                           \
        return gpur_cuda_leave(before_, error_, what);                                                                 \
    } while (0)

/* cudnn.c. gpur_cuda_dnn_plan returns a plan of the convolution. Equal shapes share one plan; each user releases it
 * once. GPUR_UNAVAILABLE: cuDNN was not found or has no engine for the shape, which was logged; *plan is then NULL,
 * which gpur_cuda_dnn_plan_release accepts. Closing requires that all plans were released. */
gpur_status gpur_cuda_dnn_plan(gpur_device *device, const gpur_conv_shape *shape, gpur_cudadnn_plan **plan);
void gpur_cuda_dnn_plan_release(gpur_device *device, gpur_cudadnn_plan *plan);
void gpur_cuda_dnn_close(gpur_device *device);
int64_t gpur_cuda_dnn_workspace_bytes(const gpur_device *device, const gpur_cudadnn_plan *plan);
gpur_status gpur_cuda_dnn_run(gpur_device *device, gpur_stream *stream, gpur_cudadnn_plan *plan,
                              const gpur_cudadnn_arrays *arrays);

/* Contents of a captured graph, for tests: the number of nodes of each kind (a train step must need no host function
 * and allocate nothing), and how its kernels depend on each other. */

typedef struct gpur_cuda_nodes {
    int64_t kernels, copies, fills, hosts, others;
} gpur_cuda_nodes;

/* Counts the nodes of the graph of one repetition. `graph` must belong to a CUDA device. */
gpur_status gpur_cuda_graph_count_nodes(const gpur_graph *graph, gpur_cuda_nodes *nodes);

/* Counts the programmatic edges of the same graph, which dependent launches make. GPUR_UNAVAILABLE: built with a CUDA
 * older than 12.3, which cannot tell the type of an edge. */
gpur_status gpur_cuda_graph_count_dependents(const gpur_graph *graph, int64_t *edges);

/* Returns 1 if kernels are launched dependently: compute capability 9.0 or later, and a CUDA that can capture dependent
 * launches. The device must be a CUDA device. */
int gpur_cuda_has_dependent_launches(const gpur_device *device);
