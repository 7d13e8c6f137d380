/* SPDX-License-Identifier: MIT */
/* Streams: non-blocking streams of our own, or wrappers of the caller's; and events. */
#include "device/cuda/cuda.h"

cudaStream_t gpur_cuda_native(gpur_stream *base)
{
    gpur_cuda_stream *const stream = (gpur_cuda_stream *)base;
    atomic_store_explicit(&stream->after_kernel, 0, memory_order_relaxed);
    return stream->native;
}

static void list_stream(gpur_cuda_stream *stream)
{
    gpur_cuda *const cuda = gpur_cuda_of(stream->base.device);
    pthread_mutex_lock(&cuda->streams_mutex);
    stream->next = cuda->streams;
    stream->listed = 1;
    cuda->streams = stream;
    pthread_mutex_unlock(&cuda->streams_mutex);
}

static void unlist_stream(gpur_cuda_stream *stream)
{
    gpur_cuda *const cuda = gpur_cuda_of(stream->base.device);
    gpur_cuda_stream **link = &cuda->streams;
    if (!stream->listed)
        return;
    pthread_mutex_lock(&cuda->streams_mutex);
    while (*link != stream)
        link = &(*link)->next;
    *link = stream->next;
    pthread_mutex_unlock(&cuda->streams_mutex);
}

static gpur_status create(gpur_device *device, void *native, gpur_stream **out)
{
    *out = NULL;
    gpur_cuda_stream *const stream = (gpur_cuda_stream *)gpur_host_alloc(device, sizeof *stream);
    if (!stream)
        return gpur_fail(GPUR_OUT_OF_MEMORY, "no host memory for a stream: %zu bytes", sizeof *stream);
    stream->base.device = device;
    stream->native = (cudaStream_t)native;
    stream->owned = native == NULL;
    int before;
    cudaError_t error = gpur_cuda_enter(device, &before);
    if (!error && stream->owned)
        error = cudaStreamCreateWithFlags(&stream->native, cudaStreamNonBlocking);
    const gpur_status status = gpur_cuda_leave(before, error, "cudaStreamCreateWithFlags");
    if (status != GPUR_OK) {
        gpur_host_free(device, stream, sizeof *stream);
        return status;
    }
    *out = &stream->base;
    return GPUR_OK;
}

gpur_status gpur_cuda_stream_create(gpur_device *device, void *native, gpur_stream **out)
{
    GPUR_TRY(create(device, native, out));
    list_stream((gpur_cuda_stream *)*out);
    return GPUR_OK;
}

gpur_status gpur_cuda_stream_create_unlisted(gpur_device *device, gpur_stream **out)
{
    return create(device, NULL, out);
}

void gpur_cuda_stream_give_back(gpur_stream *base)
{
    gpur_host_free(base->device, base, sizeof(gpur_cuda_stream));
}

/* CUDA counts waiting for a stream or an event, even for one that has nothing to do with a capture, among the calls
 * that a capture forbids. */
static cudaError_t wait_for_stream(cudaStream_t stream)
{
    const enum cudaStreamCaptureMode mode = gpur_cuda_relax();
    const cudaError_t error = cudaStreamSynchronize(stream);
    gpur_cuda_unrelax(mode);
    return error;
}

static cudaError_t wait_for_event(cudaEvent_t event)
{
    const enum cudaStreamCaptureMode mode = gpur_cuda_relax();
    const cudaError_t error = cudaEventSynchronize(event);
    gpur_cuda_unrelax(mode);
    return error;
}

void gpur_cuda_stream_destroy(gpur_stream *base)
{
    gpur_cuda_stream *const stream = (gpur_cuda_stream *)base;
    gpur_device *const device = base->device;
    int before;
    unlist_stream(stream);
    cudaError_t error = gpur_cuda_enter(device, &before);
    if (!error) {
        error = wait_for_stream(stream->native);
        const cudaError_t end = stream->owned ? cudaStreamDestroy(stream->native) : cudaSuccess;
        error = error ? error : end;
    }
    gpur_cuda_leave_quietly(before, error);
    gpur_host_free(device, stream, sizeof *stream);
}

gpur_status gpur_cuda_stream_sync(gpur_stream *stream)
{
    GPUR_CUDA_RETURN(stream->device, wait_for_stream(gpur_cuda_native(stream)), "cudaStreamSynchronize");
}

/* Synchronizes stream by stream: cudaDeviceSynchronize would also wait for the host program's streams, and CUDA refuses
 * it while any stream of the process is being captured. Returns the first failure. */
gpur_status gpur_cuda_sync(gpur_device *device)
{
    gpur_cuda *const cuda = gpur_cuda_of(device);
    int before;
    cudaError_t error = gpur_cuda_enter(device, &before);
    pthread_mutex_lock(&cuda->streams_mutex);
    for (const gpur_cuda_stream *stream = cuda->streams; !error && stream; stream = stream->next)
        error = wait_for_stream(stream->native);
    pthread_mutex_unlock(&cuda->streams_mutex);
    return gpur_cuda_leave(before, error, "cudaStreamSynchronize");
}

void *gpur_cuda_stream_native(gpur_stream *stream)
{
    return (void *)gpur_cuda_native(stream);
}

/* Whether a stream is being captured, or is the legacy default stream while another one is, which is the same to CUDA
 * (`implicit`). Refuses a stream that CUDA does not know. */
typedef struct capture_state {
    int is_captured, is_implicit;
} capture_state;

static gpur_status read_capture(gpur_device *device, cudaStream_t native, capture_state *state)
{
    enum cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
    int before;
    cudaError_t error = gpur_cuda_enter(device, &before);
    if (!error)
        error = cudaStreamIsCapturing(native, &capture);
    state->is_implicit = error == cudaErrorStreamCaptureImplicit;
    state->is_captured = state->is_implicit || capture != cudaStreamCaptureStatusNone;
    if (error != cudaErrorInvalidResourceHandle && !state->is_captured)
        return gpur_cuda_leave(before, error, "cudaStreamIsCapturing");
    gpur_cuda_leave_quietly(before, error);
    GPUR_REQUIRE(state->is_captured, "stream is %p, which is no stream of CUDA's, or no longer one", (void *)native);
    return GPUR_OK;
}

/* Refuses, with the status `refusal`, a stream that is being captured: ordering it behind our stream, or ours behind
 * it, would pull our stream into the caller's graph. */
static gpur_status refuse_captured(gpur_device *device, cudaStream_t native, gpur_status refusal)
{
    capture_state state;
    GPUR_TRY(read_capture(device, native, &state));
    if (!state.is_captured)
        return GPUR_OK;
    return gpur_fail(refusal, "stream is %p, which is being captured into a graph; it must be one that is not",
                     (void *)native);
}

int gpur_cuda_stream_is_captured(gpur_device *device, void *native)
{
    capture_state state;
    return read_capture(device, (cudaStream_t)native, &state) == GPUR_OK && state.is_captured;
}

/* Work of this device cannot be enqueued to a stream of another GPU, which CUDA would say at the first launch. A CUDA
 * before 12.8 does not tell whose a stream is. */
static gpur_status refuse_of_another_gpu(gpur_device *device, cudaStream_t native)
{
#if CUDART_VERSION >= 12080
    const int ours = gpur_cuda_of(device)->ordinal;
    int theirs = ours, before;
    cudaError_t error = gpur_cuda_enter(device, &before);
    if (!error)
        error = cudaStreamGetDevice(native, &theirs);
    GPUR_TRY(gpur_cuda_leave(before, error, "cudaStreamGetDevice"));
    GPUR_REQUIRE(theirs == ours, "stream is %p, which is of cuda:%d; it must be of cuda:%d", (void *)native, theirs,
                 ours);
#else
    (void)device, (void)native;
#endif
    return GPUR_OK;
}

/* CUDA would say at the first launch what does not fit, and a capture would be lost by it. */
gpur_status gpur_cuda_stream_borrow(gpur_device *device, void *native, gpur_stream **out)
{
    capture_state state;
    *out = NULL;
    GPUR_TRY(read_capture(device, (cudaStream_t)native, &state));
    GPUR_REQUIRE(
        !state.is_implicit,
        "stream is %p, the legacy default stream, while another one is being captured, beside which CUDA lets it "
        "do nothing; it must be the one that is captured, or one made with cudaStreamNonBlocking",
        native);
    if (!state.is_captured)
        GPUR_TRY(refuse_of_another_gpu(device, (cudaStream_t)native));
    return create(device, native, out);
}

gpur_status gpur_cuda_native_stream_check(gpur_device *device, void *native, int outlives_call)
{
    GPUR_REQUIRE(!outlives_call || native != (void *)cudaStreamPerThread,
                 "stream is %p, the calling thread's own, which is another one in each thread, also in that which "
                 "releases a batch; "
                 "it must be a stream that every thread calls by the same name",
                 native);
    GPUR_TRY(refuse_captured(device, (cudaStream_t)native, GPUR_INVALID_ARGUMENT));
    return refuse_of_another_gpu(device, (cudaStream_t)native);
}

/* Each call has its own event, so threads may order streams at the same time. An event may be destroyed while a stream
 * still waits for it: CUDA frees it afterwards. */
static gpur_status order(gpur_device *device, cudaStream_t first, cudaStream_t then)
{
    cudaEvent_t event = NULL;
    int before;
    cudaError_t error = gpur_cuda_enter(device, &before);
    if (!error)
        error = cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
    if (!error)
        error = cudaEventRecord(event, first);
    if (!error)
        error = cudaStreamWaitEvent(then, event, 0);
    if (event)
        gpur_cuda_forget(cudaEventDestroy(event));
    return gpur_cuda_leave(before, error, "ordering a stream behind the caller's");
}

/* A batch is released wherever its last reference is dropped, maybe during a capture of the very stream it was read on;
 * hence GPUR_WOULD_BLOCK. If the stream no longer exists, CUDA's error is returned. */
gpur_status gpur_cuda_stream_wait_native(gpur_stream *stream, void *native)
{
    GPUR_TRY(refuse_captured(stream->device, (cudaStream_t)native, GPUR_WOULD_BLOCK));
    return order(stream->device, (cudaStream_t)native, gpur_cuda_native(stream));
}

gpur_status gpur_cuda_native_wait_stream(void *native, gpur_stream *stream)
{
    return order(stream->device, gpur_cuda_native(stream), (cudaStream_t)native);
}

/* Events. */

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
    GPUR_CUDA_RETURN(stream->device, cudaEventRecord(native_of(event), gpur_cuda_native(stream)), "cudaEventRecord");
}

gpur_status gpur_cuda_event_wait(gpur_stream *stream, gpur_event *event)
{
    GPUR_CUDA_RETURN(stream->device, cudaStreamWaitEvent(gpur_cuda_native(stream), native_of(event), 0),
                     "cudaStreamWaitEvent");
}

gpur_status gpur_cuda_event_sync(gpur_event *event)
{
    GPUR_CUDA_RETURN(event->device, wait_for_event(native_of(event)), "cudaEventSynchronize");
}

/* cudaEventQuery returns cudaErrorNotReady, which would replace an error that the host program has not checked yet, and
 * clearing it would lose that error. So while an error is pending (possible only if the host program shares our copy of
 * the CUDA runtime) this waits for the event instead. */
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
