/* SPDX-License-Identifier: MIT */
#include "device/cuda/pretend/count_calls.h"

#include "device/cuda/cuda.h"

#include <string.h>

static call_counts recordings[COUNT_MOST_RECORDINGS];
static int begun;

void count_calls_begin(void)
{
    memset(recordings, 0, sizeof recordings);
    begun = 0;
}

int count_calls_recordings(void)
{
    return begun;
}

call_counts count_calls_of(int recording)
{
    return recordings[recording];
}

/* Returns the graph that the stream is being captured into; NULL: none. */
static cudaGraph_t graph_of(gpur_stream *stream)
{
    const cudaStream_t native = gpur_cuda_native(stream);
    enum cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    const cudaGraphNode_t *last = NULL;
    cudaGraph_t graph = NULL;
    size_t count = 0;
#if CUDART_VERSION >= 13000
    const cudaGraphEdgeData *edges = NULL; /* required: without it CUDA refuses a capture that has programmatic edges */
    const cudaError_t error = cudaStreamGetCaptureInfo(native, &status, NULL, &graph, &last, &edges, &count);
#else
    const cudaError_t error = cudaStreamGetCaptureInfo_v2(native, &status, NULL, &graph, &last, &count);
#endif
    return error == cudaSuccess && status == cudaStreamCaptureStatusActive ? graph : NULL;
}

static int64_t nodes_of(cudaGraph_t graph)
{
    size_t count = 0;
    return graph && cudaGraphGetNodes(graph, NULL, &count) == cudaSuccess ? (int64_t)count : 0;
}

/* Called before and after a call: the nodes that the call added to the graph, if there is one, are counted for its
 * origin. */
static int64_t before_call(gpur_stream *stream)
{
    return nodes_of(graph_of(stream));
}

static void behind_call(gpur_stream *stream, int way, int64_t before)
{
    const cudaGraph_t graph = graph_of(stream);
    if (!graph || begun < 1 || begun > COUNT_MOST_RECORDINGS)
        return;
    recordings[begun - 1].calls[way]++;
    recordings[begun - 1].nodes[way] += nodes_of(graph) - before;
}

/* The library's own function, and the function that replaces it. */
#define REAL(name) __real_##name
#define WRAPPED(name) __wrap_##name

gpur_status REAL(gpur_recording_create)(gpur_device *device, gpur_record_fn record, void *context, int unroll,
                                        gpur_recording **recording);
gpur_status WRAPPED(gpur_recording_create)(gpur_device *device, gpur_record_fn record, void *context, int unroll,
                                           gpur_recording **recording);
gpur_status WRAPPED(gpur_recording_create)(gpur_device *device, gpur_record_fn record, void *context, int unroll,
                                           gpur_recording **recording)
{
    begun++;
    return REAL(gpur_recording_create)(device, record, context, unroll, recording);
}

gpur_status REAL(gpur_cuda_gemm_run)(gpur_gemm *gemm, gpur_stream *stream, int64_t rows, const float *a, const float *b,
                                     float *c, const float *bias, void *workspace);
gpur_status WRAPPED(gpur_cuda_gemm_run)(gpur_gemm *gemm, gpur_stream *stream, int64_t rows, const float *a,
                                        const float *b, float *c, const float *bias, void *workspace);
gpur_status WRAPPED(gpur_cuda_gemm_run)(gpur_gemm *gemm, gpur_stream *stream, int64_t rows, const float *a,
                                        const float *b, float *c, const float *bias, void *workspace)
{
    const int64_t before = before_call(stream);
    const gpur_status status = REAL(gpur_cuda_gemm_run)(gemm, stream, rows, a, b, c, bias, workspace);
    behind_call(stream, COUNT_BLAS, before);
    return status;
}

/* The nodes that round and widen a convolution's arrays are our kernels, and are counted by their launches. */
gpur_status REAL(gpur_cuda_conv_run)(gpur_conv *conv, gpur_stream *stream, int64_t images,
                                     const gpur_conv_arrays *arrays, void *workspace);
gpur_status WRAPPED(gpur_cuda_conv_run)(gpur_conv *conv, gpur_stream *stream, int64_t images,
                                        const gpur_conv_arrays *arrays, void *workspace);
gpur_status WRAPPED(gpur_cuda_conv_run)(gpur_conv *conv, gpur_stream *stream, int64_t images,
                                        const gpur_conv_arrays *arrays, void *workspace)
{
    const int at = begun >= 1 && begun <= COUNT_MOST_RECORDINGS ? begun - 1 : 0;
    const int64_t before = before_call(stream), ours = recordings[at].nodes[COUNT_OURS];
    const gpur_status status = REAL(gpur_cuda_conv_run)(conv, stream, images, arrays, workspace);
    behind_call(stream, COUNT_DNN_CONV, before + recordings[at].nodes[COUNT_OURS] - ours);
    return status;
}

gpur_status REAL(gpur_cuda_launch)(gpur_stream *stream, int kernel, gpur_grid grid, const void *args, size_t bytes);
gpur_status WRAPPED(gpur_cuda_launch)(gpur_stream *stream, int kernel, gpur_grid grid, const void *args, size_t bytes);
gpur_status WRAPPED(gpur_cuda_launch)(gpur_stream *stream, int kernel, gpur_grid grid, const void *args, size_t bytes)
{
    const int64_t before = before_call(stream);
    const gpur_status status = REAL(gpur_cuda_launch)(stream, kernel, grid, args, bytes);
    behind_call(stream, COUNT_OURS, before);
    return status;
}
