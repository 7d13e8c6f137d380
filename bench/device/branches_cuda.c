/* SPDX-License-Identifier: MIT */
/* Graphs with nodes that decide on the device: WHILE and IF. */
#include "bench/device/graphs_cuda.h"

#if CUDART_VERSION >= 13000
/* Behind *node (NULL: at the beginning) one whose body is run while, or if, its condition holds; *node is that then. */
static gpur_status add_condition(const probe_graph *g, enum cudaGraphConditionalNodeType type,
                                 cudaGraphConditionalHandle handle, cudaGraphNode_t *node, cudaGraph_t *body)
{
    const cudaGraphNode_t behind = *node;
    struct cudaGraphNodeParams params = {.type = cudaGraphNodeTypeConditional};
    params.conditional.handle = handle;
    params.conditional.type = type;
    params.conditional.size = 1;
    GPUR_TRY(probe_status(cudaGraphAddNode(node, g->graph, behind ? &behind : NULL, NULL, behind ? 1 : 0, &params),
                          "cudaGraphAddNode"));
    *body = params.conditional.phGraph_out[0];
    return GPUR_OK;
}

/* Into `graph`, behind `behind` where it is not NULL. */
static gpur_status begin_into(const probe_graph *g, cudaGraph_t graph, cudaGraphNode_t behind)
{
    return probe_status(cudaStreamBeginCaptureToGraph(graph_native(g), graph, behind ? &behind : NULL, NULL,
                                                      behind ? 1 : 0, cudaStreamCaptureModeThreadLocal),
                        "cudaStreamBeginCaptureToGraph");
}

static gpur_status fill_loop(const probe_graph *g, const graph_work *work, cudaGraphConditionalHandle handle)
{
    const probe_condition_args args = {handle, g->left, work->times};
    const gpur_grid one = {.blocks = 1, .threads = 32};
    GPUR_TRY(work->record(work->context, g->stream));
    return probe_launch(g->stream, ID_probe_condition, one, 0, &args);
}

gpur_status graph_make_loop(probe_graph *g, const graph_work *work)
{
    const int32_t left = work->times - 1;
    cudaGraphConditionalHandle handle;
    cudaGraphNode_t node = NULL;
    cudaGraph_t body;
    void *memory = NULL;
    GPUR_TRY(gpur_device_alloc(g->device, sizeof left, &memory));
    g->left = memory;
    GPUR_TRY(gpur_device_copy(g->device, g->left, &left, sizeof left));
    GPUR_TRY(probe_status(cudaGraphCreate(&g->graph, 0), "cudaGraphCreate"));
    GPUR_TRY(probe_status(cudaGraphConditionalHandleCreate(&handle, g->graph, 1, cudaGraphCondAssignDefault),
                          "cudaGraphConditionalHandleCreate"));
    GPUR_TRY(add_condition(g, cudaGraphCondTypeWhile, handle, &node, &body));
    GPUR_TRY(begin_into(g, body, NULL));
    return graph_end_capture(g, fill_loop(g, work, handle), &body);
}

/* The one node of the capture that is under way which nothing has been put behind. */
static gpur_status last_node(const probe_graph *g, cudaGraphNode_t *node)
{
    enum cudaStreamCaptureStatus status;
    const cudaGraphNode_t *list = NULL;
    const cudaGraphEdgeData *edges = NULL;
    size_t count = 0;
    GPUR_TRY(probe_status(cudaStreamGetCaptureInfo(graph_native(g), &status, NULL, NULL, &list, &edges, &count),
                          "cudaStreamGetCaptureInfo"));
    if (count != 1)
        return gpur_fail(GPUR_DEVICE_ERROR, "a chain ends in %zu nodes; wanted 1", count);
    *node = list[0];
    return GPUR_OK;
}

/* `record` behind *node, which becomes the last of its nodes. */
static gpur_status add_recorded(const probe_graph *g, const graph_work *work, cudaGraphNode_t *node)
{
    cudaGraph_t same = NULL;
    GPUR_TRY(begin_into(g, g->graph, *node));
    gpur_status status = work->record(work->context, g->stream);
    if (status == GPUR_OK)
        status = last_node(g, node);
    return graph_end_capture(g, status, &same);
}

static gpur_status add_branch(const probe_graph *g, const graph_work *work, cudaGraphNode_t *node)
{
    cudaGraphConditionalHandle handle;
    cudaGraph_t body;
    GPUR_TRY(add_recorded(g, work, node));
    GPUR_TRY(probe_status(cudaGraphConditionalHandleCreate(&handle, g->graph, 0, cudaGraphCondAssignDefault),
                          "cudaGraphConditionalHandleCreate"));
    GPUR_TRY(add_condition(g, cudaGraphCondTypeIf, handle, node, &body));
    GPUR_TRY(begin_into(g, body, NULL));
    return graph_end_capture(g, work->record(work->context, g->stream), &body);
}

gpur_status graph_make_branches(probe_graph *g, const graph_work *work)
{
    cudaGraphNode_t node = NULL;
    GPUR_TRY(probe_status(cudaGraphCreate(&g->graph, 0), "cudaGraphCreate"));
    for (int i = 0; i < work->times; i++)
        GPUR_TRY(add_branch(g, work, &node));
    return GPUR_OK;
}
#else
static gpur_status no_conditions(void)
{
    return gpur_fail(GPUR_UNAVAILABLE, "conditions in graphs are of CUDA 13.0 or later here; this build is of %d.%d",
                     CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10);
}

gpur_status graph_make_loop(probe_graph *g, const graph_work *work)
{
    (void)g, (void)work;
    return no_conditions();
}

gpur_status graph_make_branches(probe_graph *g, const graph_work *work)
{
    (void)g, (void)work;
    return no_conditions();
}
#endif
