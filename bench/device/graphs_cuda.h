/* SPDX-License-Identifier: MIT */
/* What the files that make graphs share. All of it on the device's own CUDA device: graphs_cuda.c enters it. */
#ifndef BENCH_DEVICE_GRAPHS_CUDA_H
#define BENCH_DEVICE_GRAPHS_CUDA_H

#include "bench/device/probes_cuda.h"

struct probe_graph {
    gpur_device *device;
    gpur_stream *stream;
    cudaGraph_t graph;
    cudaGraphExec_t launch;
    int32_t *left; /* (1) device memory, of a loop */
    int sets;      /* 1: the L2 cache's part for what stays has been set, from `before` bytes */
    size_t before;
};

/* What a graph is to be of. */
typedef struct graph_work {
    gpur_record_fn record;
    void *context;
    int times; /* rounds, branches or repetitions */
} graph_work;

/* Each fills in g->graph, of which there is none yet. */
gpur_status graph_make_loop(probe_graph *g, const graph_work *work);
gpur_status graph_make_branches(probe_graph *g, const graph_work *work);
gpur_status graph_make_window(probe_graph *g, const graph_work *work, probe_window window);

/* Puts the device's limit back. */
void graph_unset_window(const probe_graph *g);

cudaStream_t graph_native(const probe_graph *g);

/* Ends the capture of the graph's stream whatever was recorded, since a stream left capturing is lost; `status` is what
 * the recording said, and comes first. */
gpur_status graph_end_capture(const probe_graph *g, gpur_status status, cudaGraph_t *graph);

#endif
