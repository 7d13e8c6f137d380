/* SPDX-License-Identifier: MIT */
/* Fake streams, events and graphs. Work runs as soon as it is enqueued. */
#include "device/cuda/pretend/pretend.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

typedef struct node {
    enum cudaGraphNodeType type;
    pretend_work work;
    struct node *next;
    _Alignas(16) unsigned char payload[];
} node;

typedef struct graph {
    node *first, **end;
    size_t count;
    int holders; /* one for the graph itself, and one for each executable graph */
} graph;

typedef struct stream {
    graph *capture; /* NULL: not capturing */
} stream;

_Thread_local cudaError_t pretend_last_error;
static _Thread_local int captures; /* number of captures in progress on this thread */
static _Thread_local enum cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
static atomic_int global_capture;
static _Atomic int64_t alive;

int64_t pretend_alive(void)
{
    return alive;
}

void pretend_count(int change)
{
    alive += change;
}

int pretend_refuses_unsafe(void)
{
    return mode != cudaStreamCaptureModeRelaxed && (captures > 0 || global_capture);
}

void pretend_global_capture(int on)
{
    global_capture = on;
}

cudaError_t pretend_cudaThreadExchangeStreamCaptureMode(enum cudaStreamCaptureMode *given)
{
    const enum cudaStreamCaptureMode before = mode;
    mode = *given;
    *given = before;
    return cudaSuccess;
}

static stream *stream_of(cudaStream_t handle)
{
    return (stream *)(void *)handle;
}

static graph *graph_of(const void *handle)
{
    return (graph *)(uintptr_t)handle;
}

cudaError_t pretend_enqueue(cudaStream_t handle, enum cudaGraphNodeType type, pretend_work work, const void *payload,
                            size_t bytes)
{
    stream *const s = stream_of(handle);
    if (!s->capture) {
        work(payload);
        return cudaSuccess;
    }
    node *const made = (node *)calloc(1, sizeof *made + bytes);
    if (!made)
        return cudaErrorMemoryAllocation;
    made->type = type;
    made->work = work;
    memcpy(made->payload, payload, bytes);
    *s->capture->end = made;
    s->capture->end = &made->next;
    s->capture->count++;
    return cudaSuccess;
}

static void let_go(graph *g)
{
    if (--g->holders > 0)
        return;
    for (node *n = g->first; n;) {
        node *const next = n->next;
        free(n);
        n = next;
    }
    free(g);
}

cudaError_t pretend_cudaStreamCreateWithFlags(cudaStream_t *out, unsigned flags)
{
    (void)flags;
    *out = (cudaStream_t)calloc(1, sizeof(stream));
    pretend_count(1);
    return cudaSuccess;
}

cudaError_t pretend_cudaStreamDestroy(cudaStream_t handle)
{
    free(stream_of(handle));
    pretend_count(-1);
    return cudaSuccess;
}

cudaError_t pretend_cudaStreamSynchronize(cudaStream_t handle)
{
    return stream_of(handle)->capture ? cudaErrorStreamCaptureUnsupported : cudaSuccess;
}

cudaError_t pretend_cudaStreamIsCapturing(cudaStream_t handle, enum cudaStreamCaptureStatus *status)
{
    *status = stream_of(handle)->capture ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
    return cudaSuccess;
}

/* No captured train step waits for events, so the fake refuses that during a capture. */
cudaError_t pretend_cudaStreamWaitEvent(cudaStream_t handle, cudaEvent_t event, unsigned flags)
{
    (void)flags;
    return stream_of(handle)->capture || !event ? cudaErrorStreamCaptureIsolation : cudaSuccess;
}

cudaError_t pretend_cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags)
{
    (void)flags;
    *event = (cudaEvent_t)calloc(1, 1);
    pretend_count(1);
    return cudaSuccess;
}

cudaError_t pretend_cudaEventDestroy(cudaEvent_t event)
{
    free((void *)event);
    pretend_count(-1);
    return cudaSuccess;
}

cudaError_t pretend_cudaEventRecord(cudaEvent_t event, cudaStream_t handle)
{
    return stream_of(handle)->capture || !event ? cudaErrorStreamCaptureIsolation : cudaSuccess;
}

cudaError_t pretend_cudaEventSynchronize(cudaEvent_t event)
{
    return event ? cudaSuccess : cudaErrorInvalidResourceHandle;
}

cudaError_t pretend_cudaEventQuery(cudaEvent_t event)
{
    return pretend_refuses_unsafe() ? cudaErrorStreamCaptureUnsupported : pretend_cudaEventSynchronize(event);
}

cudaError_t pretend_cudaStreamBeginCapture(cudaStream_t handle, enum cudaStreamCaptureMode wanted)
{
    stream *const s = stream_of(handle);
    if (s->capture || wanted != cudaStreamCaptureModeThreadLocal)
        return cudaErrorIllegalState;
    s->capture = (graph *)calloc(1, sizeof *s->capture);
    s->capture->end = &s->capture->first;
    s->capture->holders = 1;
    captures++;
    return cudaSuccess;
}

cudaError_t pretend_cudaStreamEndCapture(cudaStream_t handle, cudaGraph_t *out)
{
    stream *const s = stream_of(handle);
    *out = (cudaGraph_t)(void *)s->capture;
    if (!s->capture)
        return cudaErrorIllegalState;
    s->capture = NULL;
    captures--;
    pretend_count(1);
    return cudaSuccess;
}

cudaError_t pretend_cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t handle, unsigned long long flags)
{
    (void)flags;
    graph_of(handle)->holders++;
    *exec = (cudaGraphExec_t)(void *)handle;
    pretend_count(1);
    return cudaSuccess;
}

cudaError_t pretend_cudaGraphUpload(cudaGraphExec_t exec, cudaStream_t handle)
{
    return exec && !stream_of(handle)->capture ? cudaSuccess : cudaErrorInvalidValue;
}

cudaError_t pretend_cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t handle)
{
    if (stream_of(handle)->capture)
        return cudaErrorStreamCaptureUnsupported;
    for (const node *n = graph_of(exec)->first; n; n = n->next)
        n->work(n->payload);
    return cudaSuccess;
}

cudaError_t pretend_cudaGraphExecDestroy(cudaGraphExec_t exec)
{
    let_go(graph_of(exec));
    pretend_count(-1);
    return cudaSuccess;
}

cudaError_t pretend_cudaGraphDestroy(cudaGraph_t handle)
{
    let_go(graph_of(handle));
    pretend_count(-1);
    return cudaSuccess;
}

cudaError_t pretend_cudaGraphGetNodes(cudaGraph_t handle, cudaGraphNode_t *nodes, size_t *count)
{
    size_t i = 0;
    for (const node *n = graph_of(handle)->first; nodes && n && i < *count; n = n->next)
        nodes[i++] = (cudaGraphNode_t)(uintptr_t)n;
    *count = graph_of(handle)->count;
    return cudaSuccess;
}

cudaError_t pretend_cudaGraphNodeGetType(cudaGraphNode_t handle, enum cudaGraphNodeType *type)
{
    *type = ((const node *)(void *)handle)->type;
    return cudaSuccess;
}
