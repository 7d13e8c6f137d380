/* SPDX-License-Identifier: MIT */
/* Events. */
#include "device/device_cuda.h"

typedef struct cuda_event {
    gpur_event base;
    cudaEvent_t native;
} cuda_event;

static cudaEvent_t native_of(gpur_event *event)
{
    return ((cuda_event *)event)->native;
}

gpur_status gpur_cuda_event_create(gpur_device *device, gpur_event **out)
{
    *out = NULL;
    cuda_event *const event = (cuda_event *)gpur_host_alloc(device, sizeof *event);
    if (!event)
        return gpur_fail(GPUR_OUT_OF_MEMORY, "no host memory for an event: %zu bytes", sizeof *event);
    event->base.device = device;
    int before;
    cudaError_t error = gpur_cuda_enter(device, &before);
    if (!error)
        error = cudaEventCreateWithFlags(&event->native, cudaEventDisableTiming);
    const gpur_status status = gpur_cuda_leave(before, error, "cudaEventCreateWithFlags");
    if (status != GPUR_OK) {
        gpur_host_free(device, event, sizeof *event);
        return status;
    }
    *out = &event->base;
    return GPUR_OK;
}

void gpur_cuda_event_destroy(gpur_event *event)
{
    gpur_device *const device = event->device;
    int before;
    cudaError_t error = gpur_cuda_enter(device, &before);
    if (!error)
        error = cudaEventDestroy(native_of(event));
    gpur_cuda_leave_quietly(before, error);
    gpur_host_free(device, event, sizeof(cuda_event));
}

gpur_status gpur_cuda_event_record(gpur_event *event, gpur_stream *stream)
{
    int before;
    cudaError_t error = gpur_cuda_enter(stream->device, &before);
    if (!error)
        error = cudaEventRecord(native_of(event), gpur_cuda_native(stream));
    return gpur_cuda_leave(before, error, "cudaEventRecord");
}

gpur_status gpur_cuda_event_wait(gpur_stream *stream, gpur_event *event)
{
    int before;
    cudaError_t error = gpur_cuda_enter(stream->device, &before);
    if (!error)
        error = cudaStreamWaitEvent(gpur_cuda_native(stream), native_of(event), 0);
    return gpur_cuda_leave(before, error, "cudaStreamWaitEvent");
}

gpur_status gpur_cuda_event_sync(gpur_event *event)
{
    int before;
    cudaError_t error = gpur_cuda_enter(event->device, &before);
    if (!error)
        error = cudaEventSynchronize(native_of(event));
    return gpur_cuda_leave(before, error, "cudaEventSynchronize");
}

/* "Not ready" would take the place of an error that the host program has not noticed yet, and be cleared with it. So
 * while there is one (and the host program shares our copy of the CUDA runtime) the event is waited for. */
static cudaError_t query(gpur_event *event)
{
    const enum cudaStreamCaptureMode mode = gpur_cuda_relax();
    const int is_pending = cudaPeekAtLastError() != cudaSuccess;
    const cudaError_t error = (is_pending ? cudaEventSynchronize : cudaEventQuery)(native_of(event));
    gpur_cuda_unrelax(mode);
    return error;
}

int gpur_cuda_event_done(gpur_event *event)
{
    int before;
    cudaError_t error = gpur_cuda_enter(event->device, &before);
    if (!error)
        error = query(event);
    gpur_cuda_leave_quietly(before, error);
    return error == cudaSuccess;
}
