/* SPDX-License-Identifier: MIT */
/* Devices: the CPU, or a GPU. A replay lies in the memory of its device, and training runs on the same device. */
#ifndef GPUREPLAY_DEVICE_H
#define GPUREPLAY_DEVICE_H

#include "gpureplay/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* An open device. Any thread may use it, and any number of them at the same time. */
typedef struct gpur_device gpur_device;

/* Which thread does the work of the CPU device. A CUDA device ignores this setting. */
enum {
    GPUR_EXECUTOR_INLINE = 0, /* the calling thread, with helpers for large work (see below), before the call returns:
                                 fastest for small batches */
    GPUR_EXECUTOR_THREAD = 1, /* one thread per stream, so that training overlaps with acting */
};

/* Receives a message of one line, without a newline. The threads that call the library call it, several of them at the
 * same time if need be. */
typedef void (*gpur_log_fn)(void *user, const char *line);

/* Allocates host memory, aligned to at least 64 bytes. Returns NULL if there is none. Any thread may call it. */
typedef void *(*gpur_alloc_fn)(void *user, size_t bytes);
/* Frees memory from the gpur_alloc_fn. `bytes` is the size that was allocated. Any thread may call it. */
typedef void (*gpur_release_fn)(void *user, void *memory, size_t bytes);

/* Settings of gpur_device_open; gpur_device_config_init fills in the defaults. */
typedef struct gpur_device_config {
    uint64_t size;           /* sizeof(gpur_device_config), as the caller was compiled */
    int32_t threads;         /* CPU: the most threads that work on one call, including the calling thread, 0 to 1,024.
                                0, the default: OMP_NUM_THREADS if the environment sets it, otherwise the number of
                                cores that this process may run on */
    int32_t executor;        /* GPUR_EXECUTOR_*; default INLINE */
    void *stream;            /* CUDA: the cudaStream_t on which sampling and training run. It stays the caller's, and
                                must exist as long as the device; not cudaStreamPerThread, not under capture, and of
                                this GPU. A pointer that never was a stream may crash in the driver. NULL: the library
                                creates one. On the CPU: NULL */
    int32_t deterministic;   /* CUDA. 1: learners and policies compute convolutions only by algorithms that give the
                                same bits in each run, which can be slower. 0, the default: as cuDNN's heuristics
                                choose */
    gpur_log_fn log;         /* receives messages; NULL: none are made */
    void *log_user;          /* the first argument of `log` */
    gpur_alloc_fn alloc;     /* allocates host memory; NULL: the C library does. Set both or neither */
    gpur_release_fn release; /* frees memory from `alloc` */
    void *alloc_user;        /* the first argument of `alloc` and `release` */
} gpur_device_config;

/* Sets every member to its default. `size` is sizeof(gpur_device_config). Any thread. GPUR_INVALID_ARGUMENT: NULL, or a
 * size below 8 or above 65,536. */
GPUR_API gpur_status gpur_device_config_init(gpur_device_config *config, uint64_t size);

/*
 * Threads of the CPU device. With the inline executor the calling thread does the work of its call. Larger work (a
 * batch of some hundred transitions, a matrix product of some million operations) is cut into pieces, and up to
 * `threads` - 1 helper threads take pieces, too. The device starts its helpers when it first needs them; they sleep
 * between calls and end with the device. If a helper cannot be started, the other threads do its pieces. With the
 * thread executor each stream of the device, of a replay and of a learner has a thread, which works in place of the
 * calling thread. OpenBLAS and oneDNN are called with one thread each.
 *
 * Busy machines. A call never waits for a helper that has not begun a piece. If a helper loses its core in the middle
 * of a piece, the call waits for it, and the device then uses no helpers for up to half a second. A call therefore
 * takes hardly longer than with `threads` = 1 when other processes keep all cores busy [docs/performance.md].
 *
 * Results. With the same `threads`, the same calls give the same bits, whatever else runs on the machine. With another
 * number of threads, matrix products and convolutions may differ in their last bits; sampling gives the same ids.
 *
 * fork(). With the inline executor a child process can continue to use the device, in its own copy of the memory,
 * unless another thread of the parent was inside of a call during the fork; the child starts helpers of its own. With
 * the thread executor the child does not have the threads of the streams: calls that need them return
 * GPUR_DEVICE_ERROR, and objects can only be destroyed. A child can always open new devices. CUDA does not work in the
 * child of a process that has used CUDA.
 *
 * Memory. If the library cannot allocate memory, it returns GPUR_OUT_OF_MEMORY. Two libraries below it do not: oneDNN,
 * which computes convolutions on the CPU, throws a C++ exception through the call, which ends a C program; and the
 * OpenMP runtime, which OpenBLAS and oneDNN use, ends the program if it has no memory for some hundred bytes in a
 * thread's first call. Train steps without convolutions allocate no memory.
 */

/*
 * Opens a device. No call of the library changes the calling thread's current CUDA device, the thread counts of BLAS
 * and OpenMP, or signal handlers. Any thread.
 *
 *   name     "cpu", "cuda:N" for GPU number N, "cuda" (the same as "cuda:0"), or "auto": "cuda:0", or "cpu" where
 *            "cuda:0" is GPUR_UNAVAILABLE; the log then says why
 *   config   NULL: the defaults
 *   device   receives the handle, or NULL if the call fails; close it with gpur_device_close
 *
 * Context on GPU 0. After work on GPU N the library sets the thread's current CUDA device back to the one before. In a
 * thread that has never chosen one, that is device 0, and setting it makes CUDA create a context on GPU 0, which takes
 * memory there. To avoid that for N above 0, show the program one GPU only (CUDA_VISIBLE_DEVICES), or call
 * cudaSetDevice(N) in each thread before its first call of the library.
 *
 *   GPUR_INVALID_ARGUMENT  an unknown name, a value of `config` out of its range, or NULL
 *   GPUR_OUT_OF_MEMORY     no host memory for the handle, or no thread for GPUR_EXECUTOR_THREAD
 *   GPUR_UNAVAILABLE       no CUDA in this build, no driver, or no GPU of this number; the message says which, and what
 *                          helps
 *   GPUR_DEVICE_ERROR      CUDA failed
 */
GPUR_API gpur_status gpur_device_open(const char *name, const gpur_device_config *config, gpur_device **device);

/*
 * Closes the handle. The device itself exists until the last replay, learner and batch on it is destroyed, so handles
 * may be destroyed in any order. Any thread, but not while another thread is inside of a call with this handle. NULL
 * does nothing.
 */
GPUR_API void gpur_device_close(gpur_device *device);

/* What gpur_device_get_info reports. */
typedef struct gpur_device_info {
    uint64_t size;         /* sizeof(gpur_device_info), as the caller was compiled: set it before the call */
    char name[32];         /* "cpu", "cuda:0" */
    char description[128]; /* CPU or GPU model, kernel variant, BLAS */
    int32_t is_cuda;       /* 1: a GPU; 0: the CPU */
    int32_t threads;       /* CPU: the most threads of one call; CUDA: the number of multiprocessors */
    int64_t memory_total;  /* bytes of the device's memory; CPU: of the container, if that is limited to less */
    int64_t memory_free;   /* bytes of it that are free, counting this program and all others */
    int64_t memory_used;   /* bytes of device memory allocated through this handle: by gpur_device_alloc, and by the
                                 replays, batches and learners on it. Pinned host memory is not counted */
} gpur_device_info;

/*
 * Describes the device. Any thread.
 *
 *   info  `size` is set by the caller; the other members are filled in
 *
 *   GPUR_INVALID_ARGUMENT  NULL, or `info->size` was not set
 *   GPUR_DEVICE_ERROR      the device failed
 */
GPUR_API gpur_status gpur_device_get_info(gpur_device *device, gpur_device_info *info);

/*
 * Allocates memory on the device, zeroed and aligned to 256 bytes; on the CPU it is ordinary host memory. It is for
 * arrays that a caller appends to a replay (gpur_writer_append_fields). Any thread.
 *
 *   bytes    1 or more
 *   memory   receives the address, or NULL if the call fails. The memory is the caller's: free it with
 *            gpur_device_free. Memory that is not freed by then is freed with the device
 *
 *   GPUR_INVALID_ARGUMENT  bytes below 1, or NULL
 *   GPUR_OUT_OF_MEMORY     not enough memory; the message has the bytes needed and available
 *   GPUR_DEVICE_ERROR      the device failed
 *
 *     void *rewards;
 *     gpur_device_alloc(device, sizeof host_rewards, &rewards);
 *     gpur_device_copy(device, rewards, host_rewards, sizeof host_rewards);
 *     gpur_device_free(device, rewards);
 */
GPUR_API gpur_status gpur_device_alloc(gpur_device *device, int64_t bytes, void **memory);
/* Waits like gpur_device_sync, and then frees memory from gpur_device_alloc. An address that is not from
 * gpur_device_alloc of this device is logged and otherwise ignored. NULL does nothing. Any thread. */
GPUR_API void gpur_device_free(gpur_device *device, void *memory);

/*
 * Copies `bytes` bytes, after all work that was enqueued through this handle, and waits until they are copied. Work on
 * the caller's own CUDA streams that writes or reads this memory must be finished. Any thread.
 *
 *   to, from   (bytes) each in host memory or in device memory; they must not overlap
 *
 *   GPUR_INVALID_ARGUMENT  bytes below 0, or NULL; with 0 bytes `to` and `from` may be NULL
 *   GPUR_DEVICE_ERROR      the device failed, in this copy or in work enqueued before
 */
GPUR_API gpur_status gpur_device_copy(gpur_device *device, void *to, const void *from, int64_t bytes);

/*
 * Waits until all work that any thread has enqueued through this handle is done. Any thread.
 * GPUR_INVALID_ARGUMENT: NULL. GPUR_DEVICE_ERROR: the device failed in that work.
 *
 *     gpur_replay_sample(replay, 256, NULL, &batch);
 *     gpur_learner_train(learner, 100);
 *     gpur_device_sync(device); // the batch is filled, and the train steps are done
 */
GPUR_API gpur_status gpur_device_sync(gpur_device *device);

/*
 * Waits on the host until the work that is now on one of the caller's CUDA streams is done. It is for a caller that
 * computes arrays on a stream and passes them to a call that takes no stream. Any thread.
 *
 *   stream   a cudaStream_t of this GPU; 1 is the legacy default stream
 *
 *   GPUR_INVALID_ARGUMENT  NULL, a device that is the CPU, a stream under capture, or, with CUDA 12.8 or later, one of
 *                          another GPU
 *   GPUR_OUT_OF_MEMORY     no host memory for the stream's handle
 *   GPUR_DEVICE_ERROR      the device failed
 *
 *     gpur_replay_add_lanes(replay, fields, stream);
 *     gpur_device_wait_stream(device, stream);
 *     gpur_replay_save(replay, "lanes.safetensors", NULL);
 */
GPUR_API gpur_status gpur_device_wait_stream(gpur_device *device, void *stream);

#ifdef __cplusplus
}
#endif
#endif
