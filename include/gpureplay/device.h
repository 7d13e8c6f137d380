/* SPDX-License-Identifier: MIT */
/* Devices: the CPU or a GPU, on whose memory a replay lies and on which training runs. */
#ifndef GPUREPLAY_DEVICE_H
#define GPUREPLAY_DEVICE_H

#include "gpureplay/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* An open device. Any number of threads may use it at once. */
typedef struct gpur_device gpur_device;

/* Which thread carries out the work of the CPU device. A CUDA device ignores this setting. */
enum {
    GPUR_EXECUTOR_INLINE = 0, /* the calling thread, before the call returns: fastest for small batches */
    GPUR_EXECUTOR_THREAD = 1, /* a thread for each stream, so that training overlaps with acting */
};

/* Receives a message of one line, without a newline. It is called in the threads that call the library. */
typedef void (*gpur_log_fn)(void *user, const char *line);

/* Allocates host memory, aligned to at least 64 bytes. Returns NULL if there is none. */
typedef void *(*gpur_alloc_fn)(void *user, size_t bytes);
/* Frees memory from the gpur_alloc_fn. `bytes` is what was asked for. */
typedef void (*gpur_release_fn)(void *user, void *memory, size_t bytes);

/* Settings of gpur_device_open; gpur_device_config_init fills in the defaults. */
typedef struct gpur_device_config {
    uint64_t size;           /* sizeof(gpur_device_config), as the caller was compiled */
    int32_t threads;         /* CPU: most threads of one call, the calling thread included; 0: OMP_NUM_THREADS where
                                it is set in the environment, else the number of cores this process may run on */
    int32_t executor;        /* GPUR_EXECUTOR_*; default inline */
    void *stream;            /* CUDA: the cudaStream_t on which draws and train steps run. It must exist as long as the
                                device. NULL: a stream of the library's own. On the CPU: NULL */
    gpur_log_fn log;         /* receives messages; NULL: none are made */
    void *log_user;          /* the first argument of `log` */
    gpur_alloc_fn alloc;     /* allocates host memory; NULL: the C library does. Set both or neither */
    gpur_release_fn release; /* frees memory from `alloc` */
    void *alloc_user;        /* the first argument of `alloc` and `release` */
} gpur_device_config;

/* Sets every member to its default; `size` is sizeof(gpur_device_config). Any thread. GPUR_INVALID_ARGUMENT: NULL, or
 * not a size that this struct has had. */
GPUR_API gpur_status gpur_device_config_init(gpur_device_config *config, uint64_t size);

/*
 * Threads of the CPU device. With the inline executor the calling thread does the work of its call. Larger work (a draw
 * of some hundred rows, a matrix product of some million operations) is cut into pieces, and up to `threads` - 1 helper
 * threads take pieces beside the calling thread. The device starts its helpers when it first needs them; they sleep
 * between calls and end with the device. If a helper cannot be started, the other threads do its pieces. With the
 * thread executor each stream of the device, of a replay and of a learner has a thread, which plays the part of the
 * calling thread. OpenBLAS and oneDNN run with one thread each time they are called.
 *
 * Busy machines. A call never waits for a helper that has not begun a piece. If a helper loses its core in the middle
 * of a piece, the call waits for it, and the device then uses no helpers for up to half a second. A call therefore
 * takes hardly longer than with `threads` = 1 when other processes keep all cores busy [docs/performance.md].
 *
 * Results. With the same `threads` the same calls give the same bits, whatever else the machine does. With another
 * number of threads, matrix products and convolutions may differ in their last bits; draws do not differ.
 *
 * fork(). With the inline executor a child process can continue to use the device, in its own copy of the memory,
 * unless another thread of the parent was inside of a call during the fork; the child starts helpers of its own. With
 * the thread executor the child has no such threads: calls that need them return GPUR_DEVICE_ERROR, and only destroying
 * works. A child can always open new devices. CUDA does not work in the child of a process that has used CUDA.
 *
 * Memory. If the library cannot allocate memory, it returns GPUR_OUT_OF_MEMORY. Two libraries below it do not: oneDNN,
 * which computes convolutions on the CPU, then throws a C++ exception through the call, which ends a C program; and the
 * OpenMP runtime, which OpenBLAS and oneDNN use, ends the program if it has no memory for some hundred bytes in a
 * thread's first call. Train steps without convolutions allocate no memory.
 */

/*
 * Opens a device. No call of the library changes the calling thread's current CUDA device, the thread counts of BLAS
 * and OpenMP, or signal handlers. Any thread.
 *
 *   name     "cpu", "cuda:N", "cuda" (the same as "cuda:0"), or "auto": "cuda:0" if that works, else "cpu"
 *   config   NULL: the defaults
 *   device   gets the handle; close it with gpur_device_close
 *
 * A thread that has never chosen a CUDA device uses device 0. When the library sets it back to 0 after work on
 * "cuda:1", CUDA opens a context on GPU 0, which takes memory there. To avoid that, show the program one GPU only
 * (CUDA_VISIBLE_DEVICES), or call cudaSetDevice(1) in each thread first.
 *
 *   GPUR_INVALID_ARGUMENT  an unknown name, a value of `config` out of its range, or NULL
 *   GPUR_OUT_OF_MEMORY     no host memory for the handle, or no thread for GPUR_EXECUTOR_THREAD
 *   GPUR_UNAVAILABLE       no CUDA in this build, no driver, or no GPU of this number; the message says which, and what
 *                          helps
 *   GPUR_DEVICE_ERROR      CUDA failed
 */
GPUR_API gpur_status gpur_device_open(const char *name, const gpur_device_config *config, gpur_device **device);

/*
 * Closes the handle. The device itself stays until the last replay, learner and batch on it is destroyed, so that
 * handles may be destroyed in any order. Any thread, but not while another thread is inside of a call with this handle.
 * NULL does nothing.
 */
GPUR_API void gpur_device_close(gpur_device *device);

/* The result of gpur_device_get_info. */
typedef struct gpur_device_info {
    uint64_t size;            /* sizeof(gpur_device_info), as the caller was compiled: set it before the call */
    char name[32];            /* "cpu", "cuda:0" */
    char description[128];    /* CPU or GPU model, kernel variant, BLAS */
    int32_t is_cuda;          /* 1: a GPU; 0: the CPU */
    int32_t threads;          /* CPU: most threads of a call; CUDA: multiprocessors */
    int64_t memory_total;     /* bytes of the device's memory */
    int64_t memory_free;      /* bytes that nothing uses now, neither this program nor another */
    int64_t memory_used;      /* bytes that this handle has allocated on the device */
} gpur_device_info;

/*
 * Describes the device. Any thread.
 *
 *   GPUR_INVALID_ARGUMENT  NULL, or `info->size` was not set
 *   GPUR_DEVICE_ERROR      the device failed
 */
GPUR_API gpur_status gpur_device_get_info(gpur_device *device, gpur_device_info *info);

/*
 * Allocates zeroed memory on the device, aligned to 256 bytes; on the CPU that is ordinary memory. It is for arrays
 * from which callers append to a replay. Closing the device frees what gpur_device_free has not freed. Any thread.
 *
 *   GPUR_INVALID_ARGUMENT  bytes below 1, or NULL
 *   GPUR_OUT_OF_MEMORY     not enough memory; the message has the bytes needed and available
 *   GPUR_DEVICE_ERROR      the device failed
 */
GPUR_API gpur_status gpur_device_alloc(gpur_device *device, int64_t bytes, void **memory);
/* Waits as gpur_device_sync does, then frees memory of gpur_device_alloc. An address that is not from there is logged
 * and otherwise ignored. NULL does nothing. Any thread. */
GPUR_API void gpur_device_free(gpur_device *device, void *memory);

/*
 * Copies `bytes` bytes after all work that this handle has enqueued, and waits until they are copied. `to` and `from`
 * may each be host or device memory. Work of the caller's own CUDA streams on this memory must be finished. Any thread.
 *
 *   GPUR_INVALID_ARGUMENT  bytes below 0, or NULL; with 0 bytes `to` and `from` may be NULL
 *   GPUR_DEVICE_ERROR      the device failed, in this work or in work enqueued before
 */
GPUR_API gpur_status gpur_device_copy(gpur_device *device, void *to, const void *from, int64_t bytes);

/* Waits until all work is done that any thread has enqueued through this handle. Any thread.
 * GPUR_INVALID_ARGUMENT: NULL. GPUR_DEVICE_ERROR: the device failed in that work. */
GPUR_API gpur_status gpur_device_sync(gpur_device *device);

/* Waits until the work is done that one of the caller's CUDA streams holds now. A caller that computes arrays on a
 * stream waits so before giving them to a call that takes no stream. 1 is the legacy default stream. Any thread.
 * GPUR_INVALID_ARGUMENT: NULL, a device that is the CPU, or a stream that is being captured. GPUR_DEVICE_ERROR: the
 * device failed. */
GPUR_API gpur_status gpur_device_wait_stream(gpur_device *device, void *stream);

#ifdef __cplusplus
}
#endif
#endif
