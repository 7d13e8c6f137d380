/* SPDX-License-Identifier: MIT */
/* Graphs that a recording of the library's is not, made and launched by CUDA's own calls. */
#include "bench/device/graphs_cuda.h"
#include "bench/setup.h"

#include <stdlib.h>

cudaStream_t graph_native(const probe_graph *g)
{
    return gpur_cuda_native(g->stream);
}

gpur_status graph_end_capture(const probe_graph *g, gpur_status status, cudaGraph_t *graph)
{
    const cudaError_t error = cudaStreamEndCapture(graph_native(g), graph);
    if (status == GPUR_OK)
        return probe_status(error, "cudaStreamEndCapture");
    gpur_cuda_forget(error);
    return status;
}

static gpur_status instantiate(probe_graph *g)
{
    GPUR_TRY(probe_status(cudaGraphInstantiate(&g->launch, g->graph, 0), "cudaGraphInstantiate"));
    GPUR_TRY(probe_status(cudaGraphUpload(g->launch, graph_native(g)), "cudaGraphUpload"));
    return gpur_stream_sync(g->stream);
}

/* Which of them. */
typedef struct wanted {
    enum { LOOP, BRANCHES, WINDOW } kind;
    graph_work work;
    probe_window window;
} wanted;

static gpur_status make(probe_graph *g, const wanted *w)
{
    GPUR_TRY(gpur_stream_create(g->device, &g->stream));
    if (w->kind == LOOP)
        GPUR_TRY(graph_make_loop(g, &w->work));
    else if (w->kind == BRANCHES)
        GPUR_TRY(graph_make_branches(g, &w->work));
    else
        GPUR_TRY(graph_make_window(g, &w->work, w->window));
    return instantiate(g);
}

static gpur_status open_graph(gpur_device *device, const wanted *w, probe_graph **out)
{
    int before;
    *out = NULL;
    GPUR_TRY(probe_needs_cuda(device));
    probe_graph *const g = (probe_graph *)calloc(1, sizeof *g);
    if (!g)
        return gpur_fail(GPUR_OUT_OF_MEMORY, "no host memory for a graph: %zu bytes", sizeof *g);
    g->device = device;
    const cudaError_t error = gpur_cuda_enter(device, &before);
    const gpur_status status = error ? probe_status(error, "cudaSetDevice") : make(g, w);
    gpur_cuda_leave_quietly(before, cudaSuccess);
    if (status == GPUR_OK)
        *out = g;
    else
        probe_graph_destroy(g);
    return status;
}

gpur_status probe_graph_loop(gpur_device *device, gpur_record_fn record, void *context, int rounds, probe_graph **out)
{
    const wanted w = {.kind = LOOP, .work = {record, context, rounds}};
    return open_graph(device, &w, out);
}

gpur_status probe_graph_branches(gpur_device *device, gpur_record_fn record, void *context, int count,
                                 probe_graph **out)
{
    const wanted w = {.kind = BRANCHES, .work = {record, context, count}};
    return open_graph(device, &w, out);
}

gpur_status probe_graph_window(gpur_device *device, gpur_record_fn record, void *context, int unroll,
                               probe_window window, probe_graph **out)
{
    const wanted w = {.kind = WINDOW, .work = {record, context, unroll}, .window = window};
    return open_graph(device, &w, out);
}

/* What else is wrong by now has been said. */
static void release(probe_graph *g)
{
    if (g->launch)
        (void)cudaGraphExecDestroy(g->launch);
    if (g->graph)
        (void)cudaGraphDestroy(g->graph);
    graph_unset_window(g);
    gpur_cuda_forget(cudaPeekAtLastError());
}

void probe_graph_destroy(probe_graph *g)
{
    int before;
    if (!g)
        return;
    gpur_stream_destroy(g->stream);
    if (gpur_cuda_enter(g->device, &before) == cudaSuccess)
        release(g);
    gpur_cuda_leave_quietly(before, cudaSuccess);
    gpur_device_free(g->device, g->left);
    free(g);
}

void probe_graph_run(void *context, int64_t repeats)
{
    const probe_graph *const g = context;
    int before;
    cudaError_t error = gpur_cuda_enter(g->device, &before);
    for (int64_t i = 0; !error && i < repeats; i++)
        error = cudaGraphLaunch(g->launch, graph_native(g));
    bench_must(gpur_cuda_leave(before, error, "cudaGraphLaunch"), "a graph");
    bench_must(gpur_stream_sync(g->stream), "a graph");
}
