/* SPDX-License-Identifier: MIT */
/* Graphs whose kernels are told what is to stay in the L2 cache. */
#include "bench/device/graphs_cuda.h"

#include <stdlib.h>

/* A limit of the whole device: put back when the graph goes. */
static gpur_status set_aside(probe_graph *g, size_t bytes)
{
    GPUR_TRY(probe_status(cudaDeviceGetLimit(&g->before, cudaLimitPersistingL2CacheSize), "cudaDeviceGetLimit"));
    GPUR_TRY(probe_status(cudaDeviceSetLimit(cudaLimitPersistingL2CacheSize, bytes), "cudaDeviceSetLimit"));
    g->sets = 1;
    return GPUR_OK;
}

/* Of a window that is larger than what may stay, so large a part is kept. */
static gpur_status plan_window(probe_graph *g, probe_window window, cudaLaunchAttributeValue *value)
{
    struct cudaDeviceProp properties;
    const size_t wanted = (size_t)window.bytes;
    GPUR_TRY(probe_status(cudaGetDeviceProperties(&properties, gpur_cuda_of(g->device)->ordinal),
                          "cudaGetDeviceProperties"));
    const size_t most = (size_t)properties.persistingL2CacheMaxSize;
    const size_t widest = (size_t)properties.accessPolicyMaxWindowSize;
    if (most == 0 || widest == 0)
        return gpur_fail(GPUR_UNAVAILABLE, "this GPU's L2 cache keeps nothing when asked to");
    const size_t bytes = wanted < widest ? wanted : widest, kept = bytes < most ? bytes : most;
    value->accessPolicyWindow.base_ptr = window.memory;
    value->accessPolicyWindow.num_bytes = bytes;
    value->accessPolicyWindow.hitRatio = (float)kept / (float)bytes;
    value->accessPolicyWindow.hitProp = cudaAccessPropertyPersisting;
    value->accessPolicyWindow.missProp = cudaAccessPropertyStreaming;
    return set_aside(g, kept);
}

static cudaError_t set_window(cudaGraphNode_t node, const cudaLaunchAttributeValue *value)
{
    enum cudaGraphNodeType type;
    const cudaError_t error = cudaGraphNodeGetType(node, &type);
    if (error || type != cudaGraphNodeTypeKernel)
        return error;
    return cudaGraphKernelNodeSetAttribute(node, cudaLaunchAttributeAccessPolicyWindow, value);
}

static gpur_status set_windows(probe_graph *g, probe_window window)
{
    cudaLaunchAttributeValue value = {.accessPolicyWindow = {.base_ptr = NULL}};
    size_t count = 0;
    GPUR_TRY(plan_window(g, window, &value));
    GPUR_TRY(probe_status(cudaGraphGetNodes(g->graph, NULL, &count), "cudaGraphGetNodes"));
    cudaGraphNode_t *const list = (cudaGraphNode_t *)calloc(count + 1, sizeof *list);
    if (!list)
        return gpur_fail(GPUR_OUT_OF_MEMORY, "no host memory for a list of %zu graph nodes", count);
    cudaError_t error = cudaGraphGetNodes(g->graph, list, &count);
    for (size_t i = 0; !error && i < count; i++)
        error = set_window(list[i], &value);
    free(list);
    return probe_status(error, "cudaGraphKernelNodeSetAttribute");
}

static gpur_status record_times(const probe_graph *g, const graph_work *work)
{
    for (int i = 0; i < work->times; i++)
        GPUR_TRY(work->record(work->context, g->stream));
    return GPUR_OK;
}

gpur_status graph_make_window(probe_graph *g, const graph_work *work, probe_window window)
{
    GPUR_TRY(probe_status(cudaStreamBeginCapture(graph_native(g), cudaStreamCaptureModeThreadLocal),
                          "cudaStreamBeginCapture"));
    GPUR_TRY(graph_end_capture(g, record_times(g, work), &g->graph));
    return window.bytes > 0 ? set_windows(g, window) : GPUR_OK;
}

void graph_unset_window(const probe_graph *g)
{
    if (!g->sets)
        return;
    (void)cudaCtxResetPersistingL2Cache();
    (void)cudaDeviceSetLimit(cudaLimitPersistingL2CacheSize, g->before);
}
