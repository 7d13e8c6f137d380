/* SPDX-License-Identifier: MIT */
/* Internals of a device: its table of live allocations, the table of functions that a backend fills in, and the structs
 * that backends extend. */
#pragma once

#include "base/status.h"
#include "device/conv.h"
#include "device/device.h"
#include "device/gemm.h"

#include <pthread.h>
#include <stdatomic.h>

/* Table of live allocations and their sizes, since CUDA memory has no room for a header in front of an allocation. An
 * allocation that its owner never frees is freed with the device. */
typedef struct gpur_allocation {
    void *memory;
    int64_t bytes;
    int pinned, is_callers; /* is_callers: from gpur_device_alloc */
} gpur_allocation;

typedef struct gpur_alloc_table {
    pthread_mutex_t mutex;
    gpur_allocation *entries; /* (count of room), newest last: short-lived allocations are found first */
    size_t count, room;
} gpur_alloc_table;

enum { GPUR_MAX_THREADS = 1024 }; /* most that gpur_device_config allows */

/*
 * The functions of a backend, X(type, name, (arguments)): the CPU's are gpur_cpu_NAME and CUDA's gpur_cuda_NAME.
 * device.c, enqueue.c, gemm.c and conv.c check arguments; a backend only does the work.
 *   open                 fills in description, threads, traits and backend_data
 *   close                accepts a half-open device
 *   memory_alloc         zeroed and aligned to 256 bytes, like pinned_alloc
 *   stream_create        `native` NULL: a new stream
 *   native_stream_check  `native` is not NULL
 *   copy_nt              may be the same as copy
 *   grid_cooperative     clamps `wanted`
 */
/* clang-format off */
#define GPUR_BACKEND_LIST(X)                                                                                           \
    X(gpur_status, open, (gpur_device *device, int ordinal))                                                           \
    X(void, close, (gpur_device *device))                                                                              \
    X(gpur_status, memory_alloc, (gpur_device *device, int64_t bytes, void **memory))                                  \
    X(void, memory_free, (gpur_device *device, void *memory, int64_t bytes))                                           \
    X(gpur_status, pinned_alloc, (gpur_device *device, int64_t bytes, void **memory))                                  \
    X(void, pinned_free, (gpur_device *device, void *memory, int64_t bytes))                                           \
    X(gpur_status, memory_available, (gpur_device *device, int64_t *total, int64_t *available))                        \
    X(gpur_status, memory_locate, (gpur_device *device, const void *memory, int *on_device))                           \
    X(gpur_status, sync, (gpur_device *device))                                                                        \
    X(gpur_status, stream_create, (gpur_device *device, void *native, gpur_stream **stream))                           \
    X(gpur_status, stream_create_unlisted, (gpur_device *device, gpur_stream **stream))                                \
    X(gpur_status, stream_borrow, (gpur_device *device, void *native, gpur_stream **stream))                           \
    X(void, stream_give_back, (gpur_stream *stream))                                                                   \
    X(void, stream_destroy, (gpur_stream *stream))                                                                     \
    X(gpur_status, stream_sync, (gpur_stream *stream))                                                                 \
    X(void *, stream_native, (gpur_stream *stream))                                                                    \
    X(gpur_status, native_stream_check, (gpur_device *device, void *native, int outlives_call))                        \
    X(int, stream_is_captured, (gpur_device *device, void *native))                                                    \
    X(gpur_status, stream_wait_native, (gpur_stream *stream, void *native))                                            \
    X(gpur_status, native_wait_stream, (void *native, gpur_stream *stream))                                            \
    X(gpur_status, event_create, (gpur_device *device, gpur_event **event))                                            \
    X(void, event_destroy, (gpur_event *event))                                                                        \
    X(gpur_status, event_record, (gpur_event *event, gpur_stream *stream))                                             \
    X(gpur_status, event_wait, (gpur_stream *stream, gpur_event *event))                                               \
    X(gpur_status, event_sync, (gpur_event *event))                                                                    \
    X(int, event_done, (gpur_event *event))                                                                            \
    X(gpur_status, copy, (gpur_stream *stream, void *to, const void *from, int64_t bytes))                             \
    X(gpur_status, copy_nt, (gpur_stream *stream, void *to, const void *from, int64_t bytes))                          \
    X(gpur_status, fill, (gpur_stream *stream, void *memory, int byte, int64_t bytes))                                 \
    X(gpur_status, launch, (gpur_stream *stream, int kernel, gpur_grid grid, const void *args, size_t bytes))          \
    X(gpur_grid, grid_elements, (const gpur_device *device, int64_t n))                                                \
    X(gpur_grid, grid_rows, (const gpur_device *device, int64_t n, int64_t rows_per_block, int64_t bytes))             \
    X(gpur_grid, grid_single, (const gpur_device *device))                                                             \
    X(gpur_grid, grid_cooperative, (const gpur_device *device, int kernel, gpur_grid wanted))                          \
    X(gpur_status, run_first, (gpur_stream *stream, gpur_record_fn record, void *context))                             \
    X(gpur_status, graph_create,                                                                                       \
      (gpur_device *device, gpur_record_fn record, void *context, int unroll, gpur_graph **graph))                     \
    X(void, graph_destroy, (gpur_graph *graph))                                                                        \
    X(gpur_status, graph_launch, (gpur_graph *graph, gpur_stream *stream, int64_t repetitions))                        \
    X(gpur_status, gemm_create, (gpur_device *device, const gpur_gemm_shape *shape, gpur_gemm **gemm))                 \
    X(void, gemm_destroy, (gpur_gemm *gemm))                                                                           \
    X(int64_t, gemm_workspace_bytes, (const gpur_gemm *gemm))                                                          \
    X(gpur_status, gemm_run,                                                                                           \
      (gpur_gemm *gemm, gpur_stream *stream, int64_t rows, const void *a, const void *b, float *c,                     \
       const float *bias, void *workspace))                                                                            \
    X(const char *, gemm_library, (gpur_device *device))

/* The convolutions; NULL if there is no library. conv_create returns GPUR_UNAVAILABLE if the library is missing or has
 * no such algorithm. */
#define GPUR_BACKEND_CONV_LIST(X)                                                                                      \
    X(gpur_status, conv_create, (gpur_device *device, const gpur_conv_shape *shape, gpur_conv **conv))                 \
    X(void, conv_destroy, (gpur_conv *conv))                                                                           \
    X(int64_t, conv_workspace_bytes, (const gpur_conv *conv))                                                          \
    X(gpur_status, conv_run,                                                                                           \
      (gpur_conv *conv, gpur_stream *stream, int64_t images, const gpur_conv_arrays *arrays, void *workspace))         \
    X(const char *, conv_library, (gpur_device *device))

#define GPUR_BACKEND_MEMBER(type, name, arguments) type (*name) arguments;
/* clang-format on */
typedef struct gpur_backend {
    GPUR_BACKEND_LIST(GPUR_BACKEND_MEMBER)
    GPUR_BACKEND_CONV_LIST(GPUR_BACKEND_MEMBER)
} gpur_backend;

extern const gpur_backend gpur_backend_cpu;
extern const gpur_backend gpur_backend_cuda; /* cuda/device.c, or none.c, whose open says what is missing */

struct gpur_device {
    const gpur_backend *backend;
    gpur_device_config config;
    atomic_int references;
    _Atomic int64_t memory_used; /* bytes of device memory allocated */
    char name[32];
    char description[128];
    int32_t threads;
    gpur_device_traits traits;
    gpur_alloc_table allocations;
    gpur_stream *copy_stream; /* of gpur_device_copy */
    gpur_grid forced_grid;    /* for tests; 0 blocks: not forced */
    int second_streams;       /* gpur_device_second_streams */
    void *backend_data;       /* owned by the backend from open to close */
};

/* conv_im2col.c: convolutions as im2col and GEMM, on either device, for cases that no library handles. */
typedef struct gpur_im2col_conv gpur_im2col_conv;

gpur_status gpur_im2col_conv_create(gpur_device *device, const gpur_conv_shape *shape, gpur_im2col_conv **conv);
void gpur_im2col_conv_destroy(gpur_im2col_conv *conv);
int64_t gpur_im2col_conv_workspace_bytes(const gpur_im2col_conv *conv);
gpur_status gpur_im2col_conv_run(gpur_im2col_conv *conv, gpur_stream *stream, int64_t images,
                                 const gpur_conv_arrays *arrays, void *workspace);

/* Every backend's stream, event, graph, GEMM and convolution struct begins with one of these. */
struct gpur_stream {
    gpur_device *device;
};
struct gpur_event {
    gpur_device *device;
};
struct gpur_graph {
    gpur_device *device;
};
struct gpur_gemm {
    gpur_device *device;
    gpur_gemm_shape shape;
};
struct gpur_conv {
    gpur_device *device;
    gpur_conv_shape shape;
    gpur_im2col_conv *im2col; /* the im2col plan; NULL: a plan of the backend */
};
