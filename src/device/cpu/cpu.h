/* SPDX-License-Identifier: MIT */
/* What the files of the CPU device share. */
#ifndef GPUR_DEVICE_CPU_CPU_H
#define GPUR_DEVICE_CPU_CPU_H

#include "base/fork.h"
#include "device/cpu/helpers.h"

#include <pthread.h>

typedef struct gpur_cpu {
    const gpur_cpu_entry *entries; /* (GPUR_KERNEL_COUNT) for this processor; NULL in the race check */
    const char *kernels;           /* their name */
    gpur_helpers helpers;
    char blas[64];
    atomic_int blas_warned; /* once a device */
    uint32_t forks;         /* gpur_forks() when the device was opened */
    pthread_mutex_t streams_mutex;
    gpur_stream *streams; /* all there are, linked, for gpur_device_sync */
} gpur_cpu;

static inline gpur_cpu *gpur_cpu_of(const gpur_device *device)
{
    return (gpur_cpu *)device->backend_data;
}

/*
 * Enqueuing, in two steps: `begin` locks the stream against other callers, who follow in the order in which they came,
 * waits for room and returns the memory for the operation's payload (GPUR_CPU_PAYLOAD bytes); `end` hands the operation
 * over and unlocks. What is done in between is done in the order of the stream. Inline, `end` carries it out; its
 * failure is then that of `end`, too.
 *
 * Arguments of more than GPUR_CPU_ARGS bytes do not fit a payload, and few kernels have so many. With the thread
 * executor gpur_cpu_large, between `begin` and `end`, waits for one of the stream's few larger places, of GPUR_MAX_ARGS
 * bytes; the operation gives it back when it has run, with gpur_cpu_large_done. Places are taken and given back in the
 * order of the stream.
 */
enum { GPUR_CPU_ARGS = 1024, GPUR_CPU_PAYLOAD = GPUR_CPU_ARGS + 64 };
typedef gpur_status (*gpur_cpu_op)(gpur_stream *stream, void *payload);
void *gpur_cpu_begin(gpur_stream *stream);
gpur_status gpur_cpu_end(gpur_stream *stream, gpur_cpu_op run);
void *gpur_cpu_large(gpur_stream *stream);
void gpur_cpu_large_done(gpur_stream *stream);

gpur_status gpur_cpu_stream_create(gpur_device *device, void *native, gpur_stream **stream);
void gpur_cpu_stream_destroy(gpur_stream *stream);
gpur_status gpur_cpu_stream_sync(gpur_stream *stream);
gpur_status gpur_cpu_sync(gpur_device *device);
void **gpur_cpu_stream_blocks(gpur_stream *stream); /* a place for what blocks_*.c keeps with a stream, NULL at first */

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
gpur_status gpur_cpu_copy_past(gpur_stream *stream, void *to, const void *from, int64_t bytes);
gpur_status gpur_cpu_fill(gpur_stream *stream, void *memory, int byte, int64_t bytes);
gpur_status gpur_cpu_launch(gpur_stream *stream, int kernel, gpur_grid grid, const void *args, size_t bytes);

gpur_status gpur_cpu_recording_create(gpur_device *device, gpur_record_fn record, void *context, int unroll,
                                      gpur_recording **recording);
void gpur_cpu_recording_destroy(gpur_recording *recording);
gpur_status gpur_cpu_recording_replay(gpur_recording *recording, gpur_stream *stream, int64_t repetitions);

/* 1: this is a child of a fork, and the threads of the device's streams are its parent's alone. Nobody would carry out
 * what is enqueued, so that it is refused: gpur_cpu_fail_without_threads. */
static inline int gpur_cpu_threads_are_gone(const gpur_device *device)
{
    return device->config.executor == GPUR_EXECUTOR_THREAD && gpur_cpu_of(device)->forks != gpur_forks();
}
gpur_status gpur_cpu_fail_without_threads(void);

/* 4, 3 or 1: the x86-64 level this processor has all instructions of; 1 on other processors. */
int gpur_cpu_level(void);

/* Blocks: blocks_cpu.c (a block is one call, by the caller or one of its helpers), or blocks_race_cpu.c (several real
 * threads). gpur_cpu_blocks_open sets threads, entries and kernels. */
gpur_status gpur_cpu_blocks_open(gpur_device *device);
void gpur_cpu_blocks_close(gpur_device *device); /* takes a half-open device */
void gpur_cpu_stream_blocks_close(gpur_stream *stream);
gpur_status gpur_cpu_run_kernel(gpur_stream *stream, int kernel, gpur_grid grid, const void *args);
/* Each part once, by any thread; helpers take some if there are any. Parts are to be short, tens of microseconds: a
 * helper that loses its core in the middle of one is waited for. */
void gpur_cpu_run_parts(gpur_device *device, int64_t parts, int where, gpur_cpu_entry run, const void *args);
gpur_grid gpur_cpu_grid_elements(const gpur_device *device, int64_t n);
gpur_grid gpur_cpu_grid_rows(const gpur_device *device, int64_t n, int64_t rows_per_block, int64_t bytes);
gpur_grid gpur_cpu_grid_single(const gpur_device *device);
gpur_grid gpur_cpu_grid_together(const gpur_device *device, int kernel, gpur_grid wanted);

gpur_status gpur_cpu_gemm_create(gpur_device *device, const gpur_gemm_shape *shape, gpur_gemm **gemm);
void gpur_cpu_gemm_destroy(gpur_gemm *gemm);
int64_t gpur_cpu_gemm_workspace_bytes(const gpur_gemm *gemm);
gpur_status gpur_cpu_gemm_run(gpur_gemm *gemm, gpur_stream *stream, int64_t rows, const float *a, const float *b,
                              float *c, const float *bias, void *workspace);
const char *gpur_cpu_gemm_library(gpur_device *device);

/* The product itself: gemm_blas_cpu.c, or gemm_plain_cpu.c where there is no BLAS. */
void gpur_cpu_blas_name(char *name, size_t size);
const char *gpur_cpu_blas_warning(void); /* NULL: all is well */
void gpur_cpu_sgemm(gpur_device *device, const gpur_gemm_shape *shape, int64_t rows, const float *a, const float *b,
                    float *c);

/* conv_dnnl_cpu.c, or conv_plain_cpu.c where there is no oneDNN. */
gpur_status gpur_cpu_conv_create(gpur_device *device, const gpur_conv_shape *shape, gpur_conv **conv);
void gpur_cpu_conv_destroy(gpur_conv *conv);
int64_t gpur_cpu_conv_workspace_bytes(const gpur_conv *conv);
gpur_status gpur_cpu_conv_run(gpur_conv *conv, gpur_stream *stream, int64_t images, const gpur_conv_arrays *arrays,
                              void *workspace);
const char *gpur_cpu_conv_library(gpur_device *device);

#endif
