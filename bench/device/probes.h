/* SPDX-License-Identifier: MIT */
/*
 * What the benchmarks ask of CUDA itself, beside and below the library: probes_cuda.c and graphs_cuda.c. Where the
 * device is no CUDA device, or the build has none (probes_none.c), each is GPUR_UNAVAILABLE with its reason and does
 * nothing; so is what this GPU, its driver or this toolkit cannot do.
 */
#ifndef BENCH_DEVICE_PROBES_H
#define BENCH_DEVICE_PROBES_H

#include "bench/device/args_probes.h"
#include "device/device.h"

/* GPUR_OK where the GPU makes a difference: where kernels may be launched dependently, and where so many blocks of a
 * kernel that meets fit it as one cluster. */
gpur_status probe_needs_dependent_launches(gpur_device *device);
gpur_status probe_needs_cluster(gpur_device *device, int kernel, int32_t blocks);

/* Enqueued on `stream`, also into a recording. The barrier's blocks run at once or are refused. */
gpur_status probe_barrier(gpur_stream *stream, int blocks, int threads, const probe_barrier_args *args);
gpur_status probe_rows(gpur_stream *stream, const probe_rows_args *args);
gpur_status probe_pixels(gpur_stream *stream, const probe_pixels_args *args);

/* `rows` rows of `bytes` bytes, each side's rows its own pitch apart, in one copy. */
typedef struct probe_pitched {
    void *to;
    const void *from;
    int64_t to_pitch, from_pitch, bytes, rows;
} probe_pitched;
gpur_status probe_copy_pitched(gpur_stream *stream, const probe_pitched *copy);

/* `count` copies of `bytes` bytes each, by one call. */
gpur_status probe_copy_batch(gpur_stream *stream, int64_t count, void *const *to, const void *const *from,
                             int64_t bytes);

/* A graph made by CUDA's own calls, of what `record` enqueues, which must have been run once before. */
typedef struct probe_graph probe_graph;

/* A WHILE node, in its body `record` and the kernel that counts: `rounds` times round. */
gpur_status probe_graph_loop(gpur_device *device, gpur_record_fn record, void *context, int rounds, probe_graph **out);

/* `record` and, behind it, an IF node whose condition is false, with another `record` in it: `count` times. */
gpur_status probe_graph_branches(gpur_device *device, gpur_record_fn record, void *context, int count,
                                 probe_graph **out);

/* `record`, `unroll` times. With `bytes` above 0, every kernel is told to keep memory[0 ... bytes] in the L2 cache. */
typedef struct probe_window {
    void *memory;
    int64_t bytes;
} probe_window;
gpur_status probe_graph_window(gpur_device *device, gpur_record_fn record, void *context, int unroll,
                               probe_window window, probe_graph **out);

/* Takes NULL. */
void probe_graph_destroy(probe_graph *graph);

/* A bench_body: launches it `repeats` times and waits. `context` is the graph. */
void probe_graph_run(void *context, int64_t repeats);

#endif
