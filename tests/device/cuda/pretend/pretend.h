/* SPDX-License-Identifier: MIT */
/* What faults.c calls in the place of the CUDA runtime. Handles are pointers to objects of ours. */
#ifndef GPUR_DEVICE_CUDA_PRETEND_PRETEND_H
#define GPUR_DEVICE_CUDA_PRETEND_PRETEND_H

#include "device/cuda/pretend/runtime_list.h"

#include <cuda_runtime_api.h>
#include <stdint.h>

/* This thread's, as cudaGetLastError has it; also of calls that were failed before a real runtime was asked. */
extern _Thread_local cudaError_t pretend_last_error;

/* Blocks of memory, streams, events, graphs and their launches that have been made and not destroyed. */
int64_t pretend_alive(void);

#define PRETEND_DECLARE(name, parameters, arguments) cudaError_t pretend_##name parameters;
#define PRETEND_DECLARE_(name, parameters, arguments) PRETEND_DECLARE(name, parameters, arguments)
RUNTIME_LIST(PRETEND_DECLARE_)
cudaError_t pretend_cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph);

/* Work on a stream: carried out now, or, amid a capture, whenever the graph is launched. The payload is copied. */
typedef void (*pretend_work)(const void *payload);
cudaError_t pretend_enqueue(cudaStream_t stream, enum cudaGraphNodeType type, pretend_work work, const void *payload,
                            size_t bytes);

/* 1: this thread is capturing a stream, or somebody does in the global mode, and this thread has not said that it may
 * go on all the same (cudaThreadExchangeStreamCaptureMode): what allocates, frees or asks an event is refused. */
int pretend_refuses_unsafe(void);
/* As if a thread of the host program's captured a stream in the global mode: 1 from now on, 0 no more. */
void pretend_global_capture(int on);
void pretend_count(int change); /* of what is alive */

#endif
