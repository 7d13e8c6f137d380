/* SPDX-License-Identifier: MIT */
/* Stands in for probes_cuda.c and graphs_cuda.c in a build without CUDA. */
#include "bench/device/probes.h"

static gpur_status none(void)
{
    return gpur_fail(GPUR_UNAVAILABLE, "this build has no CUDA");
}

gpur_status probe_needs_dependent_launches(gpur_device *device)
{
    (void)device;
    return none();
}

gpur_status probe_needs_cluster(gpur_device *device, int kernel, int32_t blocks)
{
    (void)device, (void)kernel, (void)blocks;
    return none();
}

gpur_status probe_barrier(gpur_stream *stream, int blocks, int threads, const probe_barrier_args *args)
{
    (void)stream, (void)blocks, (void)threads, (void)args;
    return none();
}

gpur_status probe_rows(gpur_stream *stream, const probe_rows_args *args)
{
    (void)stream, (void)args;
    return none();
}

gpur_status probe_pixels(gpur_stream *stream, const probe_pixels_args *args)
{
    (void)stream, (void)args;
    return none();
}

gpur_status probe_copy_pitched(gpur_stream *stream, const probe_pitched *copy)
{
    (void)stream, (void)copy;
    return none();
}

gpur_status probe_copy_batch(gpur_stream *stream, int64_t count, void *const *to, const void *const *from,
                             int64_t bytes)
{
    (void)stream, (void)count, (void)to, (void)from, (void)bytes;
    return none();
}

gpur_status probe_graph_loop(gpur_device *device, gpur_record_fn record, void *context, int rounds, probe_graph **out)
{
    (void)device, (void)record, (void)context, (void)rounds;
    *out = NULL;
    return none();
}

gpur_status probe_graph_branches(gpur_device *device, gpur_record_fn record, void *context, int count,
                                 probe_graph **out)
{
    (void)device, (void)record, (void)context, (void)count;
    *out = NULL;
    return none();
}

gpur_status probe_graph_window(gpur_device *device, gpur_record_fn record, void *context, int unroll,
                               probe_window window, probe_graph **out)
{
    (void)device, (void)record, (void)context, (void)unroll, (void)window;
    *out = NULL;
    return none();
}

void probe_graph_destroy(probe_graph *graph)
{
    (void)graph;
}

void probe_graph_run(void *context, int64_t repeats)
{
    (void)context, (void)repeats;
}
