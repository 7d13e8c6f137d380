/* SPDX-License-Identifier: MIT */
/*
 * The device interface for the rest of the library. Code outside src/device/ does not know which device it uses.
 *
 * Work is enqueued on streams, and each stream runs it in order. On CUDA a stream is a CUDA stream. The CPU's streams
 * are this library's own, with two executors behind the same calls: inline, and one thread per stream. Code that passes
 * ThreadSanitizer with the thread executor has therefore ordered its work with events, and not by luck.
 */
#pragma once

#include "base/status.h"
#include "gpureplay/device.h"
#include "kernels/kernels.h"

typedef struct gpur_stream gpur_stream;
typedef struct gpur_event gpur_event;
typedef struct gpur_graph gpur_graph;

/* A device is reference-counted. It lives until the handle of gpur_device_open is closed and every object created on it
 * has released its reference. */
void gpur_device_retain(gpur_device *device);
void gpur_device_release(gpur_device *device);
const char *gpur_device_name(const gpur_device *device);

/* How a device behaves. Code outside src/device/ asks for what it needs to know, and not which device it uses. Constant
 * while the device is open. */
typedef struct gpur_device_traits {
    int32_t is_synchronous;      /* 1: enqueued work is done before the call that enqueues it returns */
    int32_t has_own_memory;      /* 1: device memory is separate from host memory. 0: kernels may read any host memory,
                                    and pinned memory takes device memory */
    int32_t has_native_streams;  /* 1: the caller may have streams, and ours are ordered with them */
    int32_t has_launch_overhead; /* 1: several train steps in one launch are faster than one launch for each */
    int32_t uses_host_cores;     /* 1: kernels run on the cores that other threads of the program need */
    int32_t has_warps;           /* 1: kernels run in their parallel bodies, by warps; 0: in their serial ones */
    int32_t has_bf16;            /* 1: GPUR_MATH_BF16 is faster than float32: networks should compute in it */
    int32_t is_deterministic;    /* 1: convolutions may use only algorithms that give the same bits in each run */
    int32_t dlpack_type;         /* DLPack's number of this type of device */
    int64_t im2col_bytes;        /* limit on the columns of a convolution by im2col that are in memory at a time */
} gpur_device_traits;
const gpur_device_traits *gpur_device_get_traits(const gpur_device *device);

/* Sends one line to the caller's log callback, if there is one. */
void gpur_log(const gpur_device *device, const char *format, ...) GPUR_PRINTF(2, 3);

/* Host memory from the caller's allocator: zeroed, aligned to 64 bytes; NULL if the allocator fails. gpur_host_free
 * needs the size. `device` NULL: from the library's own allocator. */
void *gpur_host_alloc(gpur_device *device, size_t bytes);
void gpur_host_free(gpur_device *device, void *memory, size_t bytes);

/* Device memory, which counts in memory_used, and pinned host memory. Both are zeroed and aligned to 256 bytes. The
 * free functions accept NULL. If there is too little memory the result is GPUR_OUT_OF_MEMORY, and the message states
 * the bytes wanted and the purpose `what`, for device memory also the bytes free. */
gpur_status gpur_memory_alloc(gpur_device *device, int64_t bytes, const char *what, void **memory);
void gpur_memory_free(gpur_device *device, void *memory);
gpur_status gpur_pinned_alloc(gpur_device *device, int64_t bytes, const char *what, void **memory);
void gpur_pinned_free(gpur_device *device, void *memory);
gpur_status gpur_memory_available(gpur_device *device, int64_t *total, int64_t *available);

/* Sets *on_device to 1 if kernels of this device may read `memory` in place (CUDA: memory of this GPU, or managed
 * memory; CPU: any memory), and to 0 if it is host memory. GPUR_INVALID_ARGUMENT: it is memory of another GPU. */
gpur_status gpur_memory_locate(gpur_device *device, const void *memory, int *on_device);

/* Streams. gpur_stream_sync blocks the host, and reports errors of earlier asynchronous work. gpur_stream_destroy
 * accepts NULL and synchronizes first. gpur_stream_native is the cudaStream_t, or NULL on the CPU.
 * gpur_stream_create_main wraps the stream that the caller gave to gpur_device_open, or creates a new one.
 * gpur_stream_create_unlisted creates one that gpur_device_sync does not wait for, because it may be captured; all its
 * work must be ordered before work of another stream. */
gpur_status gpur_stream_create(gpur_device *device, gpur_stream **stream);
gpur_status gpur_stream_create_main(gpur_device *device, gpur_stream **stream);
gpur_status gpur_stream_create_unlisted(gpur_device *device, gpur_stream **stream);
void gpur_stream_destroy(gpur_stream *stream);
gpur_status gpur_stream_sync(gpur_stream *stream);
void *gpur_stream_native(gpur_stream *stream);

/* Waits for the stream, whether or not `status`, that of enqueuing work, is GPUR_OK: what was enqueued may use memory
 * that the caller frees next. Returns the first error. */
static inline gpur_status gpur_stream_finish(gpur_stream *stream, gpur_status status)
{
    const gpur_status done = gpur_stream_sync(stream);
    return status != GPUR_OK ? status : done;
}

/* The caller's native stream, which is not NULL, for the time of a call that only enqueues: it may be under capture,
 * and nothing waits for it. On the CPU there is none, and it is refused. */
gpur_status gpur_stream_borrow(gpur_device *device, void *native, gpur_stream **stream);
void gpur_stream_give_back(gpur_stream *stream);

/* Refuses a native stream of the caller that cannot be ordered with ours: on the CPU any but NULL; on CUDA one that is
 * being captured. With `outlives_call`, the library stores the stream for a later call, maybe from another thread; then
 * a handle that means another stream in each thread (cudaStreamPerThread) is refused, too. */
gpur_status gpur_native_stream_check(gpur_device *device, void *native, int outlives_call);

/* Refuses work on the stream that the caller gave to gpur_device_open, if there is one, while they capture it: CUDA
 * would give up the capture where the work is waited for. */
gpur_status gpur_own_stream_check(gpur_device *device);

/* Order `stream` behind the work now enqueued on the caller's native stream, and the other way round. On the CPU there
 * is nothing to do. gpur_stream_wait_native returns GPUR_WOULD_BLOCK while the caller's stream is being captured. */
gpur_status gpur_stream_wait_native(gpur_stream *stream, void *native);
gpur_status gpur_native_wait_stream(void *native, gpur_stream *stream);

/* Events. Waiting for an event that was never recorded returns at once. */
gpur_status gpur_event_create(gpur_device *device, gpur_event **event);
void gpur_event_destroy(gpur_event *event);
gpur_status gpur_event_record(gpur_event *event, gpur_stream *stream);
gpur_status gpur_stream_wait(gpur_stream *stream, gpur_event *event);
gpur_status gpur_event_sync(gpur_event *event);
int gpur_event_done(gpur_event *event); /* depends on timing: no stored or sampled value may depend on it */

/* Enqueue copies and fills between host memory (pinned, if the copy is to be asynchronous) and device memory.
 * gpur_copy_nt is for data that is not read again soon: a CPU then writes it with non-temporal stores, which do not
 * load the overwritten cache lines first. */
gpur_status gpur_copy(gpur_stream *stream, void *to, const void *from, int64_t bytes);
gpur_status gpur_copy_nt(gpur_stream *stream, void *to, const void *from, int64_t bytes);
gpur_status gpur_fill(gpur_stream *stream, void *memory, int byte, int64_t bytes);

/*
 * Launch shapes. Kernels are correct for every launch shape; these functions return fast ones.
 *   elements  n independent numbers
 *   warps     n pieces of work, each for a warp; only where the device has_warps
 *   rows      n rows of about `bytes` each. A block handles up to `rows_per_block` rows at a time, or fewer if
 *             otherwise some multiprocessors of a GPU would have no work
 *   single    one block, for reductions in a fixed order
 *   cooperative  only for kernels with a grid sync (gpur_kernel_is_cooperative): the blocks and threads asked for, but
 *             at most as many blocks as can run at the same time, and as many threads as the kernel allows. 1 block on
 *             the CPU
 * A test can force one shape on all launches except `single` with gpur_device_force_grid (`cooperative` reduces it to
 * what can run at the same time); {0, 0, 0} ends that.
 */
typedef struct gpur_grid {
    int64_t blocks;
    int32_t threads;     /* a multiple of 32 on CUDA, ignored on the CPU */
    int32_t cooperative; /* 1: cooperative launch, whose blocks all run at the same time */
} gpur_grid;

gpur_grid gpur_grid_elements(const gpur_device *device, int64_t n);
gpur_grid gpur_grid_rows(const gpur_device *device, int64_t n, int64_t rows_per_block, int64_t bytes);
gpur_grid gpur_grid_warps(const gpur_device *device, int64_t n);
gpur_grid gpur_grid_single(const gpur_device *device);
gpur_grid gpur_grid_of_threads(gpur_grid grid, int32_t max_threads); /* limits the threads of a block to
                                                                        `max_threads` */
gpur_grid gpur_grid_cooperative(const gpur_device *device, int kernel, int64_t blocks, int32_t threads);
void gpur_device_force_grid(gpur_device *device, gpur_grid grid);

/*
 * Whether train steps of learners of DQN and DPG that are created from then on have a second stream
 * (learn/network/side.h). No result depends on it. It is on by default on a GPU, where it takes 7 to 24% off a step
 * (docs/performance.md), and off on a CPU, where it would take the same cores.
 */
void gpur_device_second_streams(gpur_device *device, int on);
int gpur_device_has_second_streams(const gpur_device *device);

/*
 * gpur_launch_NAME(stream, grid, &args) for every kernel of the list. The arguments are copied and the launch is
 * checked.
 *
 *   GPUR_INVALID_ARGUMENT  a shape that the device or the kernel does not allow; a cooperative launch of more blocks
 *                          than can run at the same time; a kernel with a grid sync launched without `cooperative`, or
 *                          another kernel launched with it
 */
gpur_status gpur_launch(gpur_stream *stream, int kernel, gpur_grid grid, const void *args, size_t bytes);
#define GPUR_DECLARE_LAUNCH(name)                                                                                      \
    static inline gpur_status gpur_launch_##name(gpur_stream *stream, gpur_grid grid, const gpur_##name##_args *args)  \
    {                                                                                                                  \
        return gpur_launch(stream, GPUR_KERNEL_ID_##name, grid, args, sizeof *args);                                   \
    }
GPUR_KERNEL_LIST(GPUR_DECLARE_LAUNCH)
#undef GPUR_DECLARE_LAUNCH

/*
 * Captures the work that `record` enqueues, and launches it any number of times. CUDA: `record` is captured on a
 * private stream, into one graph of `unroll` repetitions and one of a single repetition. CPU: `record` is called again
 * for each repetition. `record` must enqueue the same work each time, only on the stream it is given, and on unlisted
 * ones that wait for an event of it and for which it waits in the end. Values that change from step to step must be
 * read from device memory.
 *
 * The caller must have run `record` once by gpur_run_first: cuBLAS and cuDNN load code at its first use, and CUDA
 * forbids loading during capture. Creating a graph runs nothing on the device.
 */
typedef gpur_status (*gpur_record_fn)(void *context, gpur_stream *stream);
gpur_status gpur_graph_create(gpur_device *device, gpur_record_fn record, void *context, int unroll,
                              gpur_graph **graph);

/* Calls `record`, whose work may be the first of its kind: libraries load their code then, for which the host program
 * may be capturing a stream of its own in another thread. */
gpur_status gpur_run_first(gpur_stream *stream, gpur_record_fn record, void *context);
void gpur_graph_destroy(gpur_graph *graph);
gpur_status gpur_graph_launch(gpur_graph *graph, gpur_stream *stream, int64_t repetitions);
