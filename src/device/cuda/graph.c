/* SPDX-License-Identifier: MIT */
/* A gpur_graph on CUDA: two CUDA graphs, one of `unroll` repetitions and one of a single repetition for the
 * remainder. */
#include "device/cuda/cuda.h"

#include <stdlib.h>

typedef struct cuda_graph {
    gpur_graph base;
    int unroll;
    cudaGraph_t graph;             /* stored so that its nodes can be counted */
    cudaGraphExec_t unrolled_exec; /* NULL if unroll is 1 */
    cudaGraphExec_t single_exec;
} cuda_graph;

static gpur_status record_repetitions(gpur_stream *stream, gpur_record_fn record, void *context, int repetitions)
{
    for (int i = 0; i < repetitions; i++)
        GPUR_TRY(record(context, stream));
    return GPUR_OK;
}

/* Ends the capture even if `record` fails, because a stream left capturing is unusable; the status of `record` takes
 * precedence. The capture mode is thread-local, so other threads may make any CUDA call except cudaDeviceSynchronize
 * and similar calls, which would also wait for this stream and are refused during its capture. This library makes
 * none. */
static gpur_status capture(gpur_stream *stream, gpur_record_fn record, void *context, int repetitions,
                           cudaGraph_t *graph)
{
    const cudaStream_t native = gpur_cuda_native(stream);
    *graph = NULL;
    GPUR_TRY(
        gpur_cuda_status(cudaStreamBeginCapture(native, cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture"));
    const gpur_status status = record_repetitions(stream, record, context, repetitions);
    const cudaError_t error = cudaStreamEndCapture(native, graph);
    if (status != GPUR_OK) {
        gpur_cuda_forget(error);
        return status;
    }
    return gpur_cuda_status(error, "cudaStreamEndCapture");
}

/* Unlike our own capture, this may be relaxed: what a recording must not do would go unnoticed there. */
static cudaError_t make_executable(gpur_stream *stream, cudaGraph_t graph, cudaGraphExec_t *launch, const char **call)
{
    const enum cudaStreamCaptureMode mode = gpur_cuda_relax(); /* takes device memory */
    *call = "cudaGraphInstantiate";
    cudaError_t error = cudaGraphInstantiate(launch, graph, 0);
    if (!error) {
        *call = "cudaGraphUpload";
        error = cudaGraphUpload(*launch, gpur_cuda_native(stream));
    }
    gpur_cuda_unrelax(mode);
    return error;
}

static gpur_status instantiate(gpur_stream *stream, cudaGraph_t graph, cudaGraphExec_t *launch)
{
    const char *call = NULL;
    const cudaError_t error = make_executable(stream, graph, launch, &call);
    GPUR_TRY(gpur_cuda_status(error, call));
    return gpur_cuda_stream_sync(stream);
}

static gpur_status build(cuda_graph *captured, gpur_stream *stream, gpur_record_fn record, void *context)
{
    GPUR_TRY(capture(stream, record, context, 1, &captured->graph));
    GPUR_TRY(instantiate(stream, captured->graph, &captured->single_exec));
    if (captured->unroll == 1)
        return GPUR_OK;
    cudaGraph_t unrolled = NULL;
    gpur_status status = capture(stream, record, context, captured->unroll, &unrolled);
    if (status == GPUR_OK)
        status = instantiate(stream, unrolled, &captured->unrolled_exec);
    if (unrolled)
        gpur_cuda_forget(cudaGraphDestroy(unrolled));
    return status;
}

/* The private stream is not in the device's list: gpur_device_sync on another thread must not wait for a stream that is
 * being captured. */
static gpur_status build_on_private_stream(cuda_graph *captured, gpur_record_fn record, void *context)
{
    gpur_device *const device = captured->base.device;
    gpur_cuda_stream stream = {.base = {device}, .owned = 1};
    int before;
    cudaError_t error = gpur_cuda_enter(device, &before);
    if (!error)
        error = cudaStreamCreateWithFlags(&stream.native, cudaStreamNonBlocking);
    gpur_status status = gpur_cuda_status(error, "cudaStreamCreateWithFlags");
    if (status == GPUR_OK) {
        status = build(captured, &stream.base, record, context);
        error = cudaStreamDestroy(stream.native);
    }
    gpur_cuda_leave_quietly(before, error);
    return status;
}

gpur_status gpur_cuda_graph_create(gpur_device *device, gpur_record_fn record, void *context, int unroll,
                                   gpur_graph **out)
{
    *out = NULL;
    cuda_graph *const captured = (cuda_graph *)gpur_host_alloc(device, sizeof *captured);
    if (!captured)
        return gpur_fail(GPUR_OUT_OF_MEMORY, "no host memory for a graph: %zu bytes", sizeof *captured);
    captured->base.device = device;
    captured->unroll = unroll;
    const gpur_status status = build_on_private_stream(captured, record, context);
    if (status != GPUR_OK) {
        gpur_cuda_graph_destroy(&captured->base);
        return status;
    }
    *out = &captured->base;
    return GPUR_OK;
}

gpur_status gpur_cuda_run_first(gpur_stream *stream, gpur_record_fn record, void *context)
{
    const enum cudaStreamCaptureMode mode = gpur_cuda_relax();
    const gpur_status status = record(context, stream);
    gpur_cuda_unrelax(mode);
    return status;
}

/* A graph may be destroyed while a launch of it still runs: CUDA lets the launch finish first. */
void gpur_cuda_graph_destroy(gpur_graph *base)
{
    cuda_graph *const captured = (cuda_graph *)base;
    gpur_device *const device = base->device;
    int before;
    cudaError_t error = gpur_cuda_enter(device, &before);
    const enum cudaStreamCaptureMode mode = gpur_cuda_relax(); /* gives device memory back */
    if (!error && captured->unrolled_exec)
        error = cudaGraphExecDestroy(captured->unrolled_exec);
    if (!error && captured->single_exec)
        error = cudaGraphExecDestroy(captured->single_exec);
    if (!error && captured->graph)
        error = cudaGraphDestroy(captured->graph);
    gpur_cuda_unrelax(mode);
    gpur_cuda_leave_quietly(before, error);
    gpur_host_free(device, captured, sizeof *captured);
}

static cudaError_t launch_times(cudaGraphExec_t launch, cudaStream_t stream, int64_t times)
{
    cudaError_t error = cudaSuccess;
    for (int64_t i = 0; !error && i < times; i++)
        error = cudaGraphLaunch(launch, stream);
    return error;
}

gpur_status gpur_cuda_graph_launch(gpur_graph *base, gpur_stream *stream, int64_t repetitions)
{
    const cuda_graph *const captured = (const cuda_graph *)base;
    const int64_t long_launches = captured->unrolled_exec ? repetitions / captured->unroll : 0;
    const cudaStream_t native = gpur_cuda_native(stream);
    int before;
    cudaError_t error = gpur_cuda_enter(base->device, &before);
    if (!error)
        error = launch_times(captured->unrolled_exec, native, long_launches);
    if (!error)
        error = launch_times(captured->single_exec, native, repetitions - long_launches * captured->unroll);
    return gpur_cuda_leave(before, error, "cudaGraphLaunch");
}

static cudaError_t count_node(cudaGraphNode_t node, gpur_cuda_nodes *nodes)
{
    enum cudaGraphNodeType type;
    const cudaError_t error = cudaGraphNodeGetType(node, &type);
    if (error)
        return error;
    if (type == cudaGraphNodeTypeKernel)
        nodes->kernels++;
    else if (type == cudaGraphNodeTypeMemcpy)
        nodes->copies++;
    else if (type == cudaGraphNodeTypeMemset)
        nodes->fills++;
    else if (type == cudaGraphNodeTypeHost)
        nodes->hosts++;
    else
        nodes->others++;
    return cudaSuccess;
}

gpur_status gpur_cuda_graph_count_nodes(const gpur_graph *base, gpur_cuda_nodes *nodes)
{
    const cuda_graph *const captured = (const cuda_graph *)base;
    const gpur_cuda_nodes none = {0, 0, 0, 0, 0};
    size_t count = 0;
    *nodes = none;
    GPUR_TRY(gpur_cuda_status(cudaGraphGetNodes(captured->graph, NULL, &count), "cudaGraphGetNodes"));
    if (count == 0)
        return GPUR_OK;
    cudaGraphNode_t *const list = (cudaGraphNode_t *)calloc(count, sizeof *list);
    if (!list)
        return gpur_fail(GPUR_OUT_OF_MEMORY, "no host memory for a list of %zu graph nodes", count);
    cudaError_t error = cudaGraphGetNodes(captured->graph, list, &count);
    for (size_t i = 0; !error && i < count; i++)
        error = count_node(list[i], nodes);
    free(list);
    return gpur_cuda_status(error, "cudaGraphNodeGetType");
}

/* Graph edges have types since CUDA 12.3; the functions for them had other names before CUDA 13. */
#if CUDART_VERSION >= 12030
static cudaError_t get_edges(cudaGraph_t graph, cudaGraphNode_t *ends, cudaGraphEdgeData *data, size_t *count)
{
    cudaGraphNode_t *const to = ends ? ends + *count : NULL;
#if CUDART_VERSION >= 13000
    return cudaGraphGetEdges(graph, ends, to, data, count);
#else
    return cudaGraphGetEdges_v2(graph, ends, to, data, count);
#endif
}

gpur_status gpur_cuda_graph_count_dependents(const gpur_graph *base, int64_t *edges)
{
    const cudaGraph_t graph = ((const cuda_graph *)base)->graph;
    size_t count = 0;
    *edges = 0;
    GPUR_TRY(gpur_cuda_status(get_edges(graph, NULL, NULL, &count), "cudaGraphGetEdges"));
    if (count == 0)
        return GPUR_OK;
    cudaGraphNode_t *const ends = (cudaGraphNode_t *)calloc(2 * count, sizeof *ends);
    cudaGraphEdgeData *const data = (cudaGraphEdgeData *)calloc(count, sizeof *data);
    const cudaError_t error = ends && data ? get_edges(graph, ends, data, &count) : cudaErrorMemoryAllocation;
    for (size_t i = 0; !error && i < count; i++)
        *edges += data[i].type == cudaGraphDependencyTypeProgrammatic;
    free(data);
    free(ends);
    return gpur_cuda_status(error, "cudaGraphGetEdges");
}
#else
gpur_status gpur_cuda_graph_count_dependents(const gpur_graph *base, int64_t *edges)
{
    (void)base;
    *edges = 0;
    return gpur_fail(GPUR_UNAVAILABLE, "CUDA %d does not tell the kinds of a graph's edges; wanted 12030 or later",
                     CUDART_VERSION);
}
#endif

int gpur_cuda_has_dependent_launches(const gpur_device *device)
{
    return CUDART_VERSION >= 12030 && gpur_cuda_of(device)->has_dependent_launches;
}
