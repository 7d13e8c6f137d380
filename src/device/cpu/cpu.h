/* SPDX-License-Identifier: MIT */
/* Shared declarations of the CPU device. */
#pragma once

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
 */
enum { GPUR_CPU_ARGS = 1024, GPUR_CPU_PAYLOAD = GPUR_CPU_ARGS + 64 };
typedef gpur_status (*gpur_cpu_op)(gpur_stream *stream, void *payload);
void *gpur_cpu_begin(gpur_stream *stream);
gpur_status gpur_cpu_end(gpur_stream *stream, gpur_cpu_op run);

void **gpur_cpu_stream_launcher(gpur_stream *stream); /* the launcher's own state, NULL at first; for launch_race.c */

/* Pinned memory is like any other. */
#define gpur_cpu_pinned_alloc gpur_cpu_memory_alloc
#define gpur_cpu_pinned_free gpur_cpu_memory_free

/* clang-format off */
#define GPUR_DECLARE_CPU(type, name, arguments) type gpur_cpu_##name arguments;
GPUR_BACKEND_LIST(GPUR_DECLARE_CPU)
GPUR_BACKEND_CONV_LIST(GPUR_DECLARE_CPU)
/* clang-format on */

/* Returns the highest x86-64 level that this processor supports completely: 4, 3 or 1; 1 on other processors. */
int gpur_cpu_level(void);

/* The launcher: launch.c (a block is one call, by the caller or one of its helpers) or, in the race check,
 * launch_race.c (a block is several real threads). gpur_cpu_launcher_open sets the device's threads, entries and
 * kernels. */
extern const int32_t gpur_cpu_has_warps;
gpur_status gpur_cpu_launcher_open(gpur_device *device);
void gpur_cpu_launcher_close(gpur_device *device); /* accepts a half-open device */
void gpur_cpu_stream_launcher_close(gpur_stream *stream);
gpur_status gpur_cpu_run_kernel(gpur_stream *stream, int kernel, gpur_grid grid, const void *args);
/* Runs each piece once, on any thread; helpers share the work if there are any. Pieces should be short, tens of
 * microseconds: the caller waits for a helper that loses its core in the middle of one. */
void gpur_cpu_run_pieces(gpur_device *device, int64_t pieces, int where, gpur_cpu_entry run, const void *args);

/* The GEMM itself: gemm_tiles.c over gemm_openblas.c or gemm_dnnl.c, or gemm_plain.c if there is neither library. */
void gpur_cpu_blas_name(char *name, size_t size);
const char *gpur_cpu_blas_warning(void); /* NULL: no warning */
gpur_status gpur_cpu_sgemm(gpur_device *device, const gpur_gemm_shape *shape, int64_t rows, const float *a,
                           const float *b, float *c);
/* A library's own GEMM on the calling thread: a part of C, `rows` by `columns`. Returns 0, or the library's status. */
int gpur_cpu_multiply(const gpur_gemm_shape *shape, int64_t rows, int64_t columns, const float *a, const float *b,
                      float *c);
