/* SPDX-License-Identifier: MIT */
#include "device/cuda/pretend/faults.h"

#include "device/cuda/pretend/pretend.h"
#include "device/cuda/pretend/runtime_list.h"

#include <pthread.h>
#include <string.h>

cuda_faults faults;

/* The fake runtime runs one call at a time. */
static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;

void faults_begin(const char *only, int64_t nth, cudaError_t error, int for_ever)
{
    faults.only = only, faults.fail_at = nth, faults.error = error, faults.for_ever = for_ever;
    faults.calls = 0;
    faults.failed = NULL;
}

void faults_end(void)
{
    faults.fail_at = 0;
}

static int is_due(int counted)
{
    return faults.failed && faults.for_ever ? 1 : counted && faults.calls == faults.fail_at;
}

/* Counts a call; returns the error that it is to fail with, or cudaSuccess. */
static cudaError_t gate(const char *name)
{
    const int counted = !faults.only || strcmp(faults.only, name) == 0;
    faults.calls += counted;
    if (faults.heard)
        faults.heard(name);
    if (faults.fail_at == 0 || !is_due(counted))
        return cudaSuccess;
    if (!faults.failed)
        faults.failed = name;
    pretend_last_error = faults.error;
    return faults.error;
}

static cudaError_t noted(cudaError_t error)
{
    pthread_mutex_unlock(&turn);
    if (error != cudaSuccess)
        pretend_last_error = error;
    return error;
}

/* Two steps, because some names are macros in CUDA 12. */
#define STAND_BEFORE_(name, parameters, arguments)                                                                     \
    cudaError_t __real_##name parameters;                                                                              \
    cudaError_t __wrap_##name parameters;                                                                              \
    cudaError_t __wrap_##name parameters                                                                               \
    {                                                                                                                  \
        const cudaError_t error = gate(#name);                                                                         \
        if (error != cudaSuccess)                                                                                      \
            return error;                                                                                              \
        if (!faults.pretend)                                                                                           \
            return __real_##name arguments;                                                                            \
        pthread_mutex_lock(&turn);                                                                                     \
        return noted(pretend_##name arguments);                                                                        \
    }
#define STAND_BEFORE(name, parameters, arguments) STAND_BEFORE_(name, parameters, arguments)
RUNTIME_LIST(STAND_BEFORE)

/* A capture ends even if this call fails, as in CUDA. */
cudaError_t __real_cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph);
cudaError_t __wrap_cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph);
cudaError_t __wrap_cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph)
{
    const cudaError_t error = gate("cudaStreamEndCapture");
    const cudaError_t ended =
        faults.pretend ? pretend_cudaStreamEndCapture(stream, graph) : __real_cudaStreamEndCapture(stream, graph);
    if (error == cudaSuccess)
        return ended;
    if (*graph)
        (void)(faults.pretend ? pretend_cudaGraphDestroy(*graph) : __real_cudaGraphDestroy(*graph));
    *graph = NULL;
    pretend_last_error = error;
    return error;
}

cudaError_t __real_cudaPeekAtLastError(void);
cudaError_t __wrap_cudaPeekAtLastError(void);
cudaError_t __wrap_cudaPeekAtLastError(void)
{
    return faults.pretend ? pretend_last_error : __real_cudaPeekAtLastError();
}

cudaError_t __real_cudaGetLastError(void);
cudaError_t __wrap_cudaGetLastError(void);
cudaError_t __wrap_cudaGetLastError(void)
{
    const cudaError_t last = pretend_last_error;
    pretend_last_error = cudaSuccess;
    return faults.pretend ? last : __real_cudaGetLastError();
}
