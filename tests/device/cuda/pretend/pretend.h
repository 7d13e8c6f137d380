/* SPDX-License-Identifier: MIT */
/* The fake CUDA runtime that faults.c calls. Its handles are pointers to objects of the fake. */
#ifndef GPUR_DEVICE_CUDA_PRETEND_PRETEND_H
#define GPUR_DEVICE_CUDA_PRETEND_PRETEND_H

#include "device/cuda/pretend/runtime_list.h"

#include <cuda_runtime_api.h>
#include <stdint.h>

/* The thread's last error, as cudaGetLastError returns it; also set by injected faults with a real runtime. */
extern _Thread_local cudaError_t pretend_last_error;

/* Returns the number of memory blocks, streams, events, graphs and executable graphs that exist. */
int64_t pretend_alive(void);

#define PRETEND_DECLARE(name, parameters, arguments) cudaError_t pretend_##name parameters;
#define PRETEND_DECLARE_(name, parameters, arguments) PRETEND_DECLARE(name, parameters, arguments)
RUNTIME_LIST(PRETEND_DECLARE_)
cudaError_t pretend_cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph);

/* Runs work on a stream: immediately, or, during a capture, whenever the graph is launched. Copies the payload. */
typedef void (*pretend_work)(const void *payload);
cudaError_t pretend_enqueue(cudaStream_t stream, enum cudaGraphNodeType type, pretend_work work, const void *payload,
                            size_t bytes);

/* Returns 1 if this thread is capturing a stream, or any thread is in the global mode, unless this thread has set the
 * relaxed mode (cudaThreadExchangeStreamCaptureMode). Allocating, freeing and querying events are refused then. */
int pretend_refuses_unsafe(void);
/* Begins (1) or ends (0) a fake capture in the global mode by a thread of the host program. */
void pretend_global_capture(int on);
void pretend_count(int change); /* changes the number of existing objects */

#endif
