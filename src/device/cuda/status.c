/* SPDX-License-Identifier: MIT */
/* CUDA errors as statuses, switching to our device and back, capture modes, and lines logged once. */
#include "device/cuda/cuda.h"

#include <stdarg.h>
#include <stdio.h>

gpur_cuda *gpur_cuda_of(const gpur_device *device)
{
    return (gpur_cuda *)device->backend_data;
}

void gpur_cuda_forget(cudaError_t error)
{
    if (error != cudaSuccess)
        (void)cudaGetLastError();
}

gpur_status gpur_cuda_status(cudaError_t error, const char *call)
{
    if (error == cudaSuccess)
        return GPUR_OK;
    gpur_cuda_forget(error);
    return gpur_fail(error == cudaErrorMemoryAllocation ? GPUR_OUT_OF_MEMORY : GPUR_DEVICE_ERROR, "%s: %s (%s, %d)",
                     call, cudaGetErrorString(error), cudaGetErrorName(error), (int)error);
}

/* A thread that never chose a device has device 0 current; restoring that makes CUDA 12 and later create a context on
 * it. Leaving our device current would be worse: the host program's next allocation would land on our GPU. */
cudaError_t gpur_cuda_enter(const gpur_device *device, int *before)
{
    const int ordinal = gpur_cuda_of(device)->ordinal;
    int current = -1;
    *before = -1;
    cudaError_t error = cudaGetDevice(&current);
    if (error || current == ordinal)
        return error;
    error = cudaSetDevice(ordinal);
    if (!error)
        *before = current;
    return error;
}

/* The caller's device may be one that it never used and cannot use: full, or another process's alone. What our call has
 * done is done all the same. */
static void restore(int before)
{
    if (before >= 0)
        gpur_cuda_forget(cudaSetDevice(before));
}

gpur_status gpur_cuda_leave(int before, cudaError_t error, const char *call)
{
    const gpur_status status = gpur_cuda_status(error, call);
    restore(before);
    return status;
}

void gpur_cuda_leave_quietly(int before, cudaError_t error)
{
    gpur_cuda_forget(error);
    restore(before);
}

/* If the exchange fails, later calls are refused as they would have been, and the mode to restore is the default of
 * threads. */
enum cudaStreamCaptureMode gpur_cuda_relax(void)
{
    enum cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
    const cudaError_t error = cudaThreadExchangeStreamCaptureMode(&mode);
    gpur_cuda_forget(error);
    return error ? cudaStreamCaptureModeGlobal : mode;
}

void gpur_cuda_unrelax(enum cudaStreamCaptureMode before)
{
    gpur_cuda_forget(cudaThreadExchangeStreamCaptureMode(&before));
}

/* FNV-1a, never 0. */
static uint64_t hash_of(const char *text)
{
    uint64_t hash = 14695981039346656037u;
    for (; *text; text++)
        hash = (hash ^ (unsigned char)*text) * 1099511628211u;
    return hash ? hash : 1;
}

/* If the table is full, every line counts as new: better logged twice than not at all. */
static int is_new(gpur_cuda *cuda, uint64_t hash)
{
    for (int i = 0; i < GPUR_CUDA_LOGGED; i++) {
        uint64_t there = 0;
        if (atomic_compare_exchange_strong(&cuda->logged[i], &there, hash))
            return 1;
        if (there == hash)
            return 0;
    }
    return 1;
}

void gpur_cuda_log_once(const gpur_device *device, const char *format, ...)
{
    char line[640];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    if (is_new(gpur_cuda_of(device), hash_of(line)))
        gpur_log(device, "%s", line);
}
