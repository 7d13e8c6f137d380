/* SPDX-License-Identifier: MIT */
/*
 * What the files of the CUDA device share. Every CUDA call stands between enter and leave, which make our device the
 * calling thread's current one and then put back what was there:
 *
 *   int before;
 *   cudaError_t error = gpur_cuda_enter(device, &before);
 *   if (!error)
 *       error = cudaMalloc(&memory, size);
 *   return gpur_cuda_leave(before, error, "cudaMalloc");
 *
 * Where the caller's device is ours already (one GPU: always) this costs one read of a thread-local number.
 */
#ifndef GPUR_DEVICE_CUDA_CUDA_H
#define GPUR_DEVICE_CUDA_CUDA_H

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
    int owned;               /* 0: the caller's */
    atomic_int after_kernel; /* 1: the last thing enqueued is a kernel of ours, which another may follow dependently */
    gpur_cuda_stream *next;  /* in the device's list */
};

/* What a kernel may be launched with, found out when the device is opened. */
typedef struct gpur_cuda_kernel {
    int32_t most_threads;   /* of a block, a multiple of 32 */
    uint32_t clusters;      /* of a kernel that meets: bit n when n blocks fit the device as one cluster */
    int64_t blocks_at_once; /* likewise: as many run at the same time; 0: none but one alone */
} gpur_cuda_kernel;

typedef struct gpur_cuda_dnn_entry gpur_cuda_dnn_entry;

enum { GPUR_CUDA_LOGGED = 64 };

/* device->backend_data */
typedef struct gpur_cuda {
    int ordinal;
    int multiprocessors;
    int has_clusters; /* and programmatic launches: compute capability 9.0 or later, and kernels compiled for it */
    gpur_cuda_kernel kernels[GPUR_KERNEL_COUNT];
    pthread_mutex_t streams_mutex;
    gpur_cuda_stream *streams;      /* all that gpur_device_sync waits for, linked */
    cudaStream_t zeroing;           /* zeroes new memory; the legacy stream would wait for the caller's streams */
    pthread_mutex_t math_mutex;     /* guards what follows */
    gpur_cuda_library math;         /* cuBLASLt, opened when the first product is planned */
    gpur_cuda_library dnn;          /* cuDNN, opened when it is first asked for a plan; its handle is for one thread */
    int dnn_missing;                /* 1: it was looked for in vain, and said so */
    gpur_cuda_dnn_entry *dnn_plans; /* linked, last used first */
    _Atomic uint64_t logged[GPUR_CUDA_LOGGED]; /* hashes of what gpur_cuda_log_once has said; 0: free */
} gpur_cuda;

gpur_cuda *gpur_cuda_of(const gpur_device *device);
/* Whoever asks for the native stream may enqueue anything: what comes next does not follow a kernel of ours. */
cudaStream_t gpur_cuda_native(gpur_stream *stream);

/* On failure nothing is to be put back, and `before` says so. */
cudaError_t gpur_cuda_enter(const gpur_device *device, int *before);
/* Puts the caller's device back, and turns `error` of `call` into a status with CUDA's words. */
gpur_status gpur_cuda_leave(int before, cudaError_t error, const char *call);
/* The same for functions that cannot fail: leaves the last error's text alone. */
void gpur_cuda_leave_quietly(int before, cudaError_t error);

/* GPUR_OUT_OF_MEMORY for cudaErrorMemoryAllocation, else GPUR_DEVICE_ERROR. Forgets the error. */
gpur_status gpur_cuda_status(cudaError_t error, const char *call);
/* Clears CUDA's own copy of an error of ours, which the host program would find at its next check. An error of its own
 * that still waits there stays, since after a success there is nothing to clear. */
void gpur_cuda_forget(cudaError_t error);

/*
 * While this thread captures a stream, or any thread captures one in the global mode, CUDA refuses what may wait for
 * the whole device (allocating and freeing, asking an event, opening a library) and spoils the capture. What the
 * library does so never touches the captured stream; between these two calls it is allowed.
 */
enum cudaStreamCaptureMode gpur_cuda_relax(void);
void gpur_cuda_unrelax(enum cudaStreamCaptureMode before);

/* To the caller's log, but each line only the first time: what a device has not, and what is done instead, is found out
 * anew by every learner. */
void gpur_cuda_log_once(const gpur_device *device, const char *format, ...) GPUR_PRINTF(2, 3);

/* memory_cuda.c */
gpur_status gpur_cuda_memory_alloc(gpur_device *device, int64_t bytes, void **memory);
void gpur_cuda_memory_free(gpur_device *device, void *memory, int64_t bytes);
gpur_status gpur_cuda_pinned_alloc(gpur_device *device, int64_t bytes, void **memory);
void gpur_cuda_pinned_free(gpur_device *device, void *memory, int64_t bytes);
gpur_status gpur_cuda_memory_available(gpur_device *device, int64_t *total, int64_t *available);
gpur_status gpur_cuda_memory_locate(gpur_device *device, const void *memory, int *on_device);
gpur_status gpur_cuda_copy(gpur_stream *stream, void *to, const void *from, int64_t bytes);
gpur_status gpur_cuda_fill(gpur_stream *stream, void *memory, int byte, int64_t bytes);

/* stream_cuda.c */
gpur_status gpur_cuda_stream_create(gpur_device *device, void *native, gpur_stream **stream);
void gpur_cuda_stream_destroy(gpur_stream *stream);
gpur_status gpur_cuda_stream_sync(gpur_stream *stream);
gpur_status gpur_cuda_sync(gpur_device *device);
void *gpur_cuda_stream_native(gpur_stream *stream);
gpur_status gpur_cuda_native_check(gpur_device *device, void *native, int kept);
gpur_status gpur_cuda_stream_wait_native(gpur_stream *stream, void *native);
gpur_status gpur_cuda_native_wait_stream(void *native, gpur_stream *stream);

/* event_cuda.c */
gpur_status gpur_cuda_event_create(gpur_device *device, gpur_event **event);
void gpur_cuda_event_destroy(gpur_event *event);
gpur_status gpur_cuda_event_record(gpur_event *event, gpur_stream *stream);
gpur_status gpur_cuda_event_wait(gpur_stream *stream, gpur_event *event);
gpur_status gpur_cuda_event_sync(gpur_event *event);
int gpur_cuda_event_done(gpur_event *event);

/* launch_cuda.c */
gpur_status gpur_cuda_load_kernels(gpur_device *device);
gpur_status gpur_cuda_launch(gpur_stream *stream, int kernel, gpur_grid grid, const void *args, size_t bytes);
gpur_grid gpur_cuda_grid_elements(const gpur_device *device, int64_t n);
gpur_grid gpur_cuda_grid_rows(const gpur_device *device, int64_t n, int64_t rows_per_block, int64_t bytes);
gpur_grid gpur_cuda_grid_single(const gpur_device *device);

/* together_cuda.c: prepares a kernel that meets; and the attribute that such a launch of several blocks needs. */
cudaError_t gpur_cuda_prepare_together(gpur_device *device, int kernel);
gpur_grid gpur_cuda_grid_together(const gpur_device *device, int kernel, gpur_grid wanted);
cudaLaunchAttribute gpur_cuda_together(const gpur_device *device, int kernel, gpur_grid grid);

/* recording_cuda.c */
gpur_status gpur_cuda_recording_create(gpur_device *device, gpur_record_fn record, void *context, int unroll,
                                       gpur_recording **recording);
void gpur_cuda_recording_destroy(gpur_recording *recording);
gpur_status gpur_cuda_recording_replay(gpur_recording *recording, gpur_stream *stream, int64_t repetitions);

/* gemm_cuda.c */
gpur_status gpur_cuda_gemm_create(gpur_device *device, const gpur_gemm_shape *shape, gpur_gemm **gemm);
void gpur_cuda_gemm_destroy(gpur_gemm *gemm);
int64_t gpur_cuda_gemm_workspace_bytes(const gpur_gemm *gemm);
gpur_status gpur_cuda_gemm_run(gpur_gemm *gemm, gpur_stream *stream, int64_t rows, const float *a, const float *b,
                               float *c, const float *bias, void *workspace);
const char *gpur_cuda_gemm_library(gpur_device *device);

/* conv_cuda.c */
gpur_status gpur_cuda_conv_create(gpur_device *device, const gpur_conv_shape *shape, gpur_conv **conv);
void gpur_cuda_conv_destroy(gpur_conv *conv);
int64_t gpur_cuda_conv_workspace_bytes(const gpur_conv *conv);
gpur_status gpur_cuda_conv_run(gpur_conv *conv, gpur_stream *stream, int64_t images, const gpur_conv_arrays *arrays,
                               void *workspace);
const char *gpur_cuda_conv_library(gpur_device *device);

/* dnn_cuda.c: a plan of the convolution, or, where that is NULL, of the product. Whoever asks for the same shape again
 * gets the same plan; each gives it back once. GPUR_UNAVAILABLE: cuDNN was not found or has no engine for it, which was
 * logged; then there is no plan, which release takes. Closing wants all plans given back. */
gpur_status gpur_cuda_dnn_plan(gpur_device *device, const gpur_conv_shape *conv, const gpur_gemm_shape *product,
                               gpur_cudadnn_plan **plan);
void gpur_cuda_dnn_plan_release(gpur_device *device, gpur_cudadnn_plan *plan);
void gpur_cuda_dnn_close(gpur_device *device);
int64_t gpur_cuda_dnn_workspace_bytes(const gpur_device *device, const gpur_cudadnn_plan *plan);
gpur_status gpur_cuda_dnn_run(gpur_device *device, gpur_stream *stream, gpur_cudadnn_plan *plan,
                              const gpur_cudadnn_arrays *arrays);

/* What a recording holds, by kind of graph node: a step must need no host function and allocate nothing. And how its
 * kernels follow each other. */

typedef struct gpur_cuda_nodes {
    int64_t kernels, copies, fills, hosts, others;
} gpur_cuda_nodes;

/* Of the graph of one repetition. The recording must be of a CUDA device. */
gpur_status gpur_cuda_recording_count(const gpur_recording *recording, gpur_cuda_nodes *nodes);

/* Of the same graph: edges by which a kernel follows another dependently (gpur_device_dependent_launches).
 * GPUR_UNAVAILABLE: built with a CUDA older than 12.3, which cannot be asked. */
gpur_status gpur_cuda_recording_dependents(const gpur_recording *recording, int64_t *edges);

/* 1 where gpur_device_dependent_launches changes anything: compute capability 9.0 or later, and a CUDA that can record
 * such launches. The device must be a CUDA one. */
int gpur_cuda_knows_dependents(const gpur_device *device);

#endif
