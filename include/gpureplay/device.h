/* SPDX-License-Identifier: MIT */
/* A device: where replay memory lives and where training runs. */
#ifndef GPUREPLAY_DEVICE_H
#define GPUREPLAY_DEVICE_H

#include "gpureplay/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A device and what is enqueued on it. Serves any number of threads. */
typedef struct gpur_device gpur_device;

/* How work on the CPU device is carried out. Ignored on CUDA, whose streams are the driver's. */
enum {
    GPUR_EXECUTOR_INLINE = 0, /* in the calling thread, before the call returns: best for small batches */
    GPUR_EXECUTOR_THREAD = 1, /* one thread a stream, so that training overlaps with acting */
};

/* Receives one line worth knowing, without a newline. May be called from any thread that calls the library. */
typedef void (*gpur_log_fn)(void *user, const char *line);

/* Host memory, aligned to at least 64 bytes, or NULL. `release` gets each pointer back with the same byte count. */
typedef void *(*gpur_alloc_fn)(void *user, size_t bytes);
/* Takes back what a gpur_alloc_fn gave. */
typedef void (*gpur_release_fn)(void *user, void *memory, size_t bytes);

/* Settings of gpur_device_open; gpur_device_config_init fills in the defaults. */
typedef struct gpur_device_config {
    uint64_t size;           /* sizeof(gpur_device_config), as the caller was compiled */
    int32_t threads;         /* CPU: most threads of one call, the calling thread included; 0: OMP_NUM_THREADS where
                                the environment has it, else as many as the cores that this process may run on */
    int32_t executor;        /* GPUR_EXECUTOR_*; default inline */
    void *stream;            /* CUDA: a cudaStream_t to run sampling and training on, the caller's to keep alive;
                                NULL: a private one. Must be NULL on the CPU */
    gpur_log_fn log;         /* NULL: silence */
    void *log_user;          /* handed to `log` */
    gpur_alloc_fn alloc;     /* NULL: the C library's aligned allocation; set both or neither */
    gpur_release_fn release; /* gives back what `alloc` gave */
    void *alloc_user;        /* handed to `alloc` and `release` */
} gpur_device_config;

/* Sets every member to its default; `size` is sizeof(gpur_device_config). Any thread. GPUR_INVALID_ARGUMENT: NULL or a
 * bad size. */
GPUR_API gpur_status gpur_device_config_init(gpur_device_config *config, uint64_t size);

/*
 * Threads of the CPU device. With the inline executor the calling thread carries out its call itself. A call that is
 * worth it (a draw of some hundred rows, a matrix product of some million operations) is cut into pieces, and up to
 * `threads` - 1 helper threads take pieces beside the caller. They are started at the first such calls, sleep when
 * there is no work, and end with the device. A thread that cannot be started is done without. With the thread executor
 * each stream of a replay, a learner and the device has a thread besides, which then is the caller. OpenBLAS and oneDNN
 * are called with one thread.
 *
 * Busy machines: a caller never waits for a helper that has not begun a piece. A helper that loses its core in the
 * middle of a piece is waited for, and helpers are then not asked for up to half a second. So calls take hardly longer
 * than with `threads` = 1 where other processes keep all cores busy [docs/performance.md].
 *
 * Results: with the same `threads` the same calls give the same bits, whatever else the machine does. With another
 * number of threads the sums of matrix products and convolutions may differ in their last bits; draws do not.
 *
 * Forks: with the inline executor a child goes on with what its parent had, in memory of its own, as long as no other
 * thread of the parent was in a call at the fork; its helpers are started anew. With the thread executor the threads
 * are the parent's alone: in the child, calls that need them answer GPUR_DEVICE_ERROR, and destroying works. Either
 * child may open devices of its own. CUDA does not work in the child of a process that has used it.
 *
 * Memory: where the library finds none, it answers GPUR_OUT_OF_MEMORY. What it cannot answer for is oneDNN, which
 * convolves on the CPU: where it finds none, an exception of C++ leaves it, which ends a program that does not catch
 * it. Nor OpenMP's runtime, which comes with OpenBLAS and oneDNN: it ends the program where a thread's first call finds
 * no memory for some hundred bytes. Train steps without convolutions take no memory.
 */

/*
 * Opens a device by name: "cpu"; "cuda" or "cuda:N"; "auto" is "cuda:0" where that works and "cpu" elsewhere. `config`
 * may be NULL for the defaults. The calling thread's current CUDA device, its BLAS and OpenMP thread counts and signal
 * handlers are left as they were. Any thread may open and close; a device serves any number of threads.
 *
 * A thread that never chose a CUDA device has device 0, and giving it that back after work on "cuda:1" makes CUDA open
 * a context on GPU 0, which takes memory there. Where that matters, let the program see one GPU only
 * (CUDA_VISIBLE_DEVICES), or call cudaSetDevice(1) in each thread first.
 *
 *   GPUR_INVALID_ARGUMENT  no such name, a config with a value out of range, or NULL
 *   GPUR_OUT_OF_MEMORY     no host memory for the handle, or no thread for GPUR_EXECUTOR_THREAD
 *   GPUR_UNAVAILABLE       no CUDA in this build, no driver, or no such ordinal: the message says which, and what helps
 *   GPUR_DEVICE_ERROR      CUDA is there and failed
 */
GPUR_API gpur_status gpur_device_open(const char *name, const gpur_device_config *config, gpur_device **device);

/*
 * Gives up the caller's hold. The device itself goes when the last replay, learner and batch on it has gone, so the
 * order of destruction does not matter. Any thread, once, when no other is in a call with this handle. Takes NULL.
 */
GPUR_API void gpur_device_close(gpur_device *device);

/* What gpur_device_get_info tells. */
typedef struct gpur_device_info {
    uint64_t size;            /* sizeof(gpur_device_info), as the caller was compiled: set it before the call */
    char name[32];            /* "cpu", "cuda:0" */
    char description[128];    /* CPU or GPU model, kernel variant, BLAS */
    int32_t is_cuda;          /* 1: memory of this device is CUDA memory */
    int32_t threads;          /* CPU: threads in use; CUDA: multiprocessors */
    int64_t memory_total;     /* bytes of the device's memory */
    int64_t memory_free;      /* bytes free now, other programs counted */
    int64_t memory_used;      /* bytes this library holds on the device through this handle */
} gpur_device_info;

/*
 * Describes the device as it is now. Any thread.
 *
 *   GPUR_INVALID_ARGUMENT  NULL, or `info->size` was not set
 *   GPUR_DEVICE_ERROR      the device failed
 */
GPUR_API gpur_status gpur_device_get_info(gpur_device *device, gpur_device_info *info);

/*
 * Zeroed memory of the device, aligned to 256 bytes; on the CPU it is ordinary memory. For callers who feed the replay
 * from device arrays; the library plans its own. What is not given to gpur_device_free goes with the device. Any
 * thread.
 *
 *   GPUR_INVALID_ARGUMENT  bytes below 1, or NULL
 *   GPUR_OUT_OF_MEMORY     with the bytes wanted and free
 *   GPUR_DEVICE_ERROR      the device failed
 */
GPUR_API gpur_status gpur_device_alloc(gpur_device *device, int64_t bytes, void **memory);
/* Waits as gpur_device_sync does, then gives memory of gpur_device_alloc back; any other is left alone, and logged. Any
 * thread. Takes NULL. */
GPUR_API void gpur_device_free(gpur_device *device, void *memory);

/*
 * Copies between any two of host and device memory, after all work this handle has enqueued, and waits until done. Any
 * thread. What the caller's own CUDA streams do to this memory must be done before.
 *
 *   GPUR_INVALID_ARGUMENT  bytes below 0, or NULL; with 0 bytes `to` and `from` may be that
 *   GPUR_DEVICE_ERROR      the device failed, in this or in work enqueued before
 */
GPUR_API gpur_status gpur_device_copy(gpur_device *device, void *to, const void *from, int64_t bytes);

/* Waits until all work enqueued through this handle is done, by whichever thread. Any thread.
 * GPUR_INVALID_ARGUMENT: NULL. GPUR_DEVICE_ERROR: the device failed in it. */
GPUR_API gpur_status gpur_device_sync(gpur_device *device);

/* Waits until what a CUDA stream of the caller's holds now is done: for arrays that are made on it, before they are
 * given to a call without a stream. 1 is the legacy default stream. Any thread.
 * GPUR_INVALID_ARGUMENT: NULL, on the CPU any stream, or one under capture. GPUR_DEVICE_ERROR: the device failed. */
GPUR_API gpur_status gpur_device_wait_stream(gpur_device *device, void *stream);

#ifdef __cplusplus
}
#endif
#endif
