/* SPDX-License-Identifier: MIT */
/* Shared declarations of the CPU device. */
#ifndef GPUR_DEVICE_CPU_CPU_H
#define GPUR_DEVICE_CPU_CPU_H

#include "base/fork.h"
#include "device/cpu/helpers.h"

#include <pthread.h>

typedef struct gpur_cpu {
    const gpur_cpu_entry *entries; /* (GPUR_KERNEL_COUNT) compiled for this processor; NULL in the race check */
    const char *kernels;           /* name of that variant */
    gpur_helpers helpers;
    char blas[64];
    atomic_int blas_warned; /* 1: logged, once per device */
    uint32_t forks;         /* gpur_forks() when the device was opened */
    pthread_mutex_t streams_mutex;
    gpur_stream *streams; /* linked list of all streams, for gpur_device_sync */
} gpur_cpu;

static inline gpur_cpu *gpur_cpu_of(const gpur_device *device)
{
    return (gpur_cpu *)device->backend_data;
}

/*
 * Enqueuing takes two steps. gpur_cpu_begin locks the stream (callers get it in the order in which they came), waits
 * for a free slot, and returns the slot's memory for the operation's payload (GPUR_CPU_PAYLOAD bytes). gpur_cpu_end
 * enqueues the operation and unlocks. What the caller does in between happens in the order of the stream. With the
 * inline executor gpur_cpu_end runs the operation and returns its status.
 *
 * The few kernels with more than GPUR_CPU_ARGS bytes of arguments do not fit a payload. With the thread executor
 * gpur_cpu_overflow_args, called between begin and end, waits for one of the stream's few overflow slots of
 * GPUR_MAX_ARGS bytes; the operation frees it with gpur_cpu_overflow_args_done when it has run. Slots are taken and
 * freed in the order of the stream.
 */
enum { GPUR_CPU_ARGS = 1024, GPUR_CPU_PAYLOAD = GPUR_CPU_ARGS + 64 };
typedef gpur_status (*gpur_cpu_op)(gpur_stream *stream, void *payload);
void *gpur_cpu_begin(gpur_stream *stream);
gpur_status gpur_cpu_end(gpur_stream *stream, gpur_cpu_op run);
void *gpur_cpu_overflow_args(gpur_stream *stream);
void gpur_cpu_overflow_args_done(gpur_stream *stream);

gpur_status gpur_cpu_stream_create(gpur_device *device, void *native, gpur_stream **stream);
void gpur_cpu_stream_destroy(gpur_stream *stream);
gpur_status gpur_cpu_stream_sync(gpur_stream *stream);
gpur_status gpur_cpu_sync(gpur_device *device);
void **gpur_cpu_stream_launcher(gpur_stream *stream); /* the launcher's own state, NULL at first; for launch_race.c */

gpur_status gpur_cpu_event_create(gpur_device *device, gpur_event **event);
void gpur_cpu_event_destroy(gpur_event *event);
gpur_status gpur_cpu_event_record(gpur_event *event, gpur_stream *stream);
gpur_status gpur_cpu_event_wait(gpur_stream *stream, gpur_event *event);
gpur_status gpur_cpu_event_sync(gpur_event *event);
int gpur_cpu_event_done(gpur_event *event);

gpur_status gpur_cpu_memory_alloc(gpur_device *device, int64_t bytes, void **memory);
void gpur_cpu_memory_free(gpur_device *device, void *memory, int64_t bytes);
gpur_status gpur_cpu_memory_available(gpur_device *device, int64_t *total, int64_t *available);
void gpur_cpu_model(char *name, size_t size);

gpur_status gpur_cpu_copy(gpur_stream *stream, void *to, const void *from, int64_t bytes);
gpur_status gpur_cpu_copy_nt(gpur_stream *stream, void *to, const void *from, int64_t bytes);
gpur_status gpur_cpu_fill(gpur_stream *stream, void *memory, int byte, int64_t bytes);
gpur_status gpur_cpu_launch(gpur_stream *stream, int kernel, gpur_grid grid, const void *args, size_t bytes);

gpur_status gpur_cpu_graph_create(gpur_device *device, gpur_record_fn record, void *context, int unroll,
                                  gpur_graph **graph);
void gpur_cpu_graph_destroy(gpur_graph *graph);
gpur_status gpur_cpu_graph_launch(gpur_graph *graph, gpur_stream *stream, int64_t repetitions);

/* Returns 1 in a forked child if the threads of the device's streams exist only in its parent. Nothing enqueued would
 * ever run, so every call is refused with gpur_cpu_fail_without_threads. */
static inline int gpur_cpu_is_forked_child(const gpur_device *device)
{
    return device->config.executor == GPUR_EXECUTOR_THREAD && gpur_cpu_of(device)->forks != gpur_forks();
}
gpur_status gpur_cpu_fail_without_threads(void);

/* Returns the highest x86-64 level that this processor supports completely: 4, 3 or 1; 1 on other processors. */
int gpur_cpu_level(void);

/* The launcher: launch.c (a block is one call, by the caller or one of its helpers) or, in the race check,
 * launch_race.c (a block is several real threads). gpur_cpu_launcher_open sets the device's threads, entries and
 * kernels. */
gpur_status gpur_cpu_launcher_open(gpur_device *device);
void gpur_cpu_launcher_close(gpur_device *device); /* accepts a half-open device */
void gpur_cpu_stream_launcher_close(gpur_stream *stream);
gpur_status gpur_cpu_run_kernel(gpur_stream *stream, int kernel, gpur_grid grid, const void *args);
/* Runs each piece once, on any thread; helpers share the work if there are any. Pieces should be short, tens of
 * microseconds: the caller waits for a helper that loses its core in the middle of one. */
void gpur_cpu_run_pieces(gpur_device *device, int64_t pieces, int where, gpur_cpu_entry run, const void *args);
gpur_grid gpur_cpu_grid_elements(const gpur_device *device, int64_t n);
gpur_grid gpur_cpu_grid_rows(const gpur_device *device, int64_t n, int64_t rows_per_block, int64_t bytes);
gpur_grid gpur_cpu_grid_single(const gpur_device *device);
gpur_grid gpur_cpu_grid_cooperative(const gpur_device *device, int kernel, gpur_grid wanted);

gpur_status gpur_cpu_gemm_create(gpur_device *device, const gpur_gemm_shape *shape, gpur_gemm **gemm);
void gpur_cpu_gemm_destroy(gpur_gemm *gemm);
int64_t gpur_cpu_gemm_workspace_bytes(const gpur_gemm *gemm);
gpur_status gpur_cpu_gemm_run(gpur_gemm *gemm, gpur_stream *stream, int64_t rows, const float *a, const float *b,
                              float *c, const float *bias, void *workspace);
const char *gpur_cpu_gemm_library(gpur_device *device);

/* The GEMM itself: gemm_openblas.c, or gemm_plain.c if there is no BLAS. */
void gpur_cpu_blas_name(char *name, size_t size);
const char *gpur_cpu_blas_warning(void); /* NULL: no warning */
void gpur_cpu_sgemm(gpur_device *device, const gpur_gemm_shape *shape, int64_t rows, const float *a, const float *b,
                    float *c);

/* conv_dnnl.c, or conv_none.c if there is no oneDNN. */
gpur_status gpur_cpu_conv_create(gpur_device *device, const gpur_conv_shape *shape, gpur_conv **conv);
void gpur_cpu_conv_destroy(gpur_conv *conv);
int64_t gpur_cpu_conv_workspace_bytes(const gpur_conv *conv);
gpur_status gpur_cpu_conv_run(gpur_conv *conv, gpur_stream *stream, int64_t images, const gpur_conv_arrays *arrays,
                              void *workspace);
const char *gpur_cpu_conv_library(gpur_device *device);

#endif
