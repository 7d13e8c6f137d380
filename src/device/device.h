/* SPDX-License-Identifier: MIT */
/*
 * What the rest of the library may ask of a device. Nothing above src/device/ knows which device it talks to.
 *
 * Work is enqueued on streams and runs in their order. On CUDA a stream is the driver's. On the CPU it is ours, with
 * two executors behind the same calls (inline and one thread a stream), so code that is right with the thread executor
 * under ThreadSanitizer has ordered its work with events and not by luck.
 */
#ifndef GPUR_DEVICE_DEVICE_H
#define GPUR_DEVICE_DEVICE_H

#include "base/status.h"
#include "gpureplay/device.h"
#include "kernels/kernels.h"

typedef struct gpur_stream gpur_stream;
typedef struct gpur_event gpur_event;
typedef struct gpur_recording gpur_recording;

/* A device lives until its last holder lets go: the handle of gpur_device_open, and each object made on it. */
void gpur_device_hold(gpur_device *device);
void gpur_device_release(gpur_device *device);
const char *gpur_device_name(const gpur_device *device);
int gpur_device_is_cuda(const gpur_device *device);

/* 1 when enqueued work is done before the call that enqueues it returns: the CPU with its inline executor. */
int gpur_device_works_at_once(const gpur_device *device);

/* Says one line to the caller's log callback, if there is one. */
void gpur_log(const gpur_device *device, const char *format, ...) GPUR_PRINTF(2, 3);

/* Host memory from the caller's allocator: zeroed, aligned to 64 bytes; NULL if there is none. Free needs the size. */
void *gpur_host_alloc(gpur_device *device, size_t bytes);
void gpur_host_free(gpur_device *device, void *memory, size_t bytes);

/* Device memory, counted in memory_used, and pinned host memory: zeroed, aligned to 256 bytes. Free takes NULL. A
 * refusal is GPUR_OUT_OF_MEMORY with bytes wanted and bytes free; `what` names the purpose in it. */
gpur_status gpur_memory_alloc(gpur_device *device, int64_t bytes, const char *what, void **memory);
void gpur_memory_free(gpur_device *device, void *memory);
gpur_status gpur_pinned_alloc(gpur_device *device, int64_t bytes, const char *what, void **memory);
void gpur_pinned_free(gpur_device *device, void *memory);
gpur_status gpur_memory_available(gpur_device *device, int64_t *total, int64_t *available);

/* Sets *on_device to 1 when kernels of this device may read `memory` in place (CUDA: memory of this GPU, or managed.
 * CPU: anything), and to 0 when it is the host's. GPUR_INVALID_ARGUMENT: it is another GPU's, for neither to read. */
gpur_status gpur_memory_locate(gpur_device *device, const void *memory, int *on_device);

/* Streams. `sync` waits on the host; errors of earlier asynchronous work come out here. Destroy takes NULL and syncs.
 * gpur_stream_native is the cudaStream_t, NULL on the CPU. `main_stream` wraps the caller's stream where one was given
 * to gpur_device_open, and else makes a new one. */
gpur_status gpur_stream_create(gpur_device *device, gpur_stream **stream);
gpur_status gpur_stream_create_main(gpur_device *device, gpur_stream **stream);
void gpur_stream_destroy(gpur_stream *stream);
gpur_status gpur_stream_sync(gpur_stream *stream);
gpur_device *gpur_stream_device(gpur_stream *stream);
void *gpur_stream_native(gpur_stream *stream);

/* Refuses a caller's stream that cannot be ordered: any but NULL on the CPU; on CUDA one that is being captured, and
 * one whose handle means another stream in each thread, if it is `kept` for when another thread may be calling. */
gpur_status gpur_native_check(gpur_device *device, void *native, int kept);

/* Makes `stream` wait for what the caller's native stream holds now, and the other way round. CPU: nothing to do. The
 * first is refused as GPUR_WOULD_BLOCK while the caller's stream is being captured. */
gpur_status gpur_stream_wait_native(gpur_stream *stream, void *native);
gpur_status gpur_native_wait_stream(void *native, gpur_stream *stream);

/* Events. A wait for one that was never recorded does not wait. */
gpur_status gpur_event_create(gpur_device *device, gpur_event **event);
void gpur_event_destroy(gpur_event *event);
gpur_status gpur_event_record(gpur_event *event, gpur_stream *stream);
gpur_status gpur_stream_wait(gpur_stream *stream, gpur_event *event);
gpur_status gpur_event_sync(gpur_event *event);
int gpur_event_done(gpur_event *event); /* for statistics only: nothing that must be reproducible may ask */

/* Enqueued copies and fills; any of host (pinned, to be asynchronous) and device memory. gpur_copy_past is for what is
 * not read again soon: a CPU then writes past its caches, which need not fetch first what is overwritten as a whole. */
gpur_status gpur_copy(gpur_stream *stream, void *to, const void *from, int64_t bytes);
gpur_status gpur_copy_past(gpur_stream *stream, void *to, const void *from, int64_t bytes);
gpur_status gpur_fill(gpur_stream *stream, void *memory, int byte, int64_t bytes);

/*
 * Launch shapes. A kernel is right for every shape; these are the good ones.
 *   elements  n independent numbers
 *   rows      n rows of about `bytes` each, of which a block walks up to `rows_per_block` together: fewer where that
 *             gives every multiprocessor of a GPU some
 *   single    one block, for reductions in a fixed order
 *   together  for kernels whose blocks meet (gpur_kernel_meets), and no others: as many blocks as were asked for, or as
 *             many as can run at the same time where those are fewer; likewise threads. 1 block on the CPU
 * A test can force one shape on all but `single` launches with gpur_device_force_grid, of which `together` takes what
 * can run at the same time; {0, 0, 0} ends that.
 */
typedef struct gpur_grid {
    int64_t blocks;
    int32_t threads;  /* a multiple of 32 on CUDA, ignored on the CPU */
    int32_t together; /* 0, or GPUR_TOGETHER_... */
} gpur_grid;

enum {
    GPUR_TOGETHER_BEST = 1, /* CUDA: as one cluster where the device can hold such a one, else as a cooperative grid */
    GPUR_TOGETHER_GRID = 2, /* as a cooperative grid in any case: for measuring one against the other */
};

gpur_grid gpur_grid_elements(const gpur_device *device, int64_t n);
gpur_grid gpur_grid_rows(const gpur_device *device, int64_t n, int64_t rows_per_block, int64_t bytes);
gpur_grid gpur_grid_single(const gpur_device *device);
gpur_grid gpur_grid_of_threads(gpur_grid grid, int32_t most); /* the same, with at most so many threads in a block */
gpur_grid gpur_grid_together(const gpur_device *device, int kernel, int64_t blocks, int32_t threads);
void gpur_device_force_grid(gpur_device *device, gpur_grid grid);

/*
 * With `on`, the blocks of a kernel that is enqueued right behind another one of ours may be made ready before that one
 * is over: CUDA's programmatic dependent launch, on GPUs of compute capability 9.0 and later. The kernel's work begins
 * after the other's end, as always, so nothing comes out different. Off at first; other devices take no notice. It
 * holds for what is enqueued and recorded from then on. To be called while no other thread enqueues.
 */
void gpur_device_dependent_launches(gpur_device *device, int on);

/*
 * gpur_launch_NAME(stream, grid, &args) for every kernel of the list: the args are copied, the launch is checked.
 *
 *   GPUR_INVALID_ARGUMENT  a shape that the device or the kernel does not take; more blocks together than can run at
 *                          the same time; a kernel that meets without `together`, or another one with it
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
 * Records what `record` enqueues and replays it. CUDA: captured on a private stream into a graph of `unroll`
 * repetitions and a graph of one. CPU: `record` is called again for each repetition. `record` must enqueue the same
 * work each time, on the stream it is given and on no other; what changes from step to step it reads from device
 * memory.
 *
 * The caller must have run `record` once on an ordinary stream before: the libraries behind it load their code when it
 * is first used, and CUDA allows no loading while it captures. Creating a recording runs nothing on the device.
 */
typedef gpur_status (*gpur_record_fn)(void *context, gpur_stream *stream);
gpur_status gpur_recording_create(gpur_device *device, gpur_record_fn record, void *context, int unroll,
                                  gpur_recording **recording);
void gpur_recording_destroy(gpur_recording *recording);
gpur_status gpur_recording_replay(gpur_recording *recording, gpur_stream *stream, int64_t repetitions);

#endif
