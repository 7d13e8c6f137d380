/* SPDX-License-Identifier: MIT */
/*
 * Batches: their arrays, references to them, and how other CUDA streams and other libraries read them.
 *
 * A batch and its memory belong to the replay's pool. gpur_replay_sample and gpur_replay_gather (replay.h) give the
 * caller one reference, which gpur_batch_release releases. When the last reference has been released, the pool reuses
 * the memory. "Device memory" is the memory of the replay's device, which is ordinary host memory where that is the
 * CPU.
 */
#ifndef GPUREPLAY_BATCH_H
#define GPUREPLAY_BATCH_H

#include "gpureplay/replay.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Returns the number of transitions in the batch. NULL gives 0. Any thread. */
GPUR_API int64_t gpur_batch_count(const gpur_batch *batch);

/*
 * Finds one array of the batch. Any thread.
 *
 *   name           a field of the schema, "discount", "weight" or "id" (see gpur_batch in replay.h); of a batch of
 *                  sequences also "mask" and "is_first" (sequences.h)
 *   device_memory  receives the address of the array in device memory: (count, ...) elements, contiguous, aligned to
 *                  256 bytes. The array belongs to the batch, and stays at this address until the last reference is
 *                  released. It is filled when gpur_batch_sync has returned, and for all work that is enqueued later on
 *                  the stream given to gpur_replay_sample
 *   info           `size` is set by the caller; receives the array's type and shape. May be NULL
 *
 *   GPUR_INVALID_ARGUMENT  no array has this name, NULL, or `info->size` was not set
 */
GPUR_API gpur_status gpur_batch_get_array(gpur_batch *batch, const char *name, void **device_memory,
                                          gpur_field_info *info);

/*
 * The addresses of the arrays that most learners read, in device memory. Types and shapes are those of the schema. A
 * field that the schema does not have is NULL. For any other field, call gpur_batch_get_array.
 */
typedef struct gpur_batch_view {
    uint64_t size;       /* sizeof(gpur_batch_view), as the caller was compiled: set it before the call */
    int64_t count;       /* number of transitions in the batch */
    void *obs;           /* (count, ...) */
    void *action;        /* (count, ...) */
    void *reward;        /* (count, ...) */
    void *next_obs;      /* (count, ...) */
    uint8_t *terminated; /* (count) 0 or 1 */
    void *truncated;     /* (count, ...) */
    float *discount;     /* (count) never NULL */
    float *weight;       /* (count) never NULL */
    int64_t *id;         /* (count) never NULL */
} gpur_batch_view;

/*
 * Fills in a view of the batch. The addresses stay valid until the last reference is released, also when
 * gpur_replay_sample_into samples into the batch. For when the arrays are filled, see gpur_batch_get_array. Any thread.
 *
 *   view  `size` is set by the caller; the other members are filled in
 *
 *   GPUR_INVALID_ARGUMENT  NULL, or `view->size` was not set
 */
GPUR_API gpur_status gpur_batch_get_view(gpur_batch *batch, gpur_batch_view *view);

/* Waits on the host until the batch is filled. Any thread. GPUR_INVALID_ARGUMENT: NULL. GPUR_DEVICE_ERROR: the device
 * failed. */
GPUR_API gpur_status gpur_batch_sync(gpur_batch *batch);

/*
 * Waits until the batch is filled, copies one array to host memory, and waits for the copy. Any thread.
 *
 *   name   as in gpur_batch_get_array
 *   host   (count, ...) elements in host memory, of the array's type
 *   bytes  the size of `host`, which must be the size of the array
 *
 *   GPUR_INVALID_ARGUMENT  no array has this name, `bytes` is not its size, or NULL
 *   GPUR_DEVICE_ERROR      the device failed
 */
GPUR_API gpur_status gpur_batch_read(gpur_batch *batch, const char *name, void *host, int64_t bytes);

/* Adds a reference, which must be released with gpur_batch_release, too. NULL does nothing. Any thread. */
GPUR_API void gpur_batch_retain(gpur_batch *batch);

/*
 * Releases one reference. The last release returns the memory to the pool; if the replay has been destroyed, it frees
 * the memory. Any thread. NULL does nothing.
 *
 * The pool reuses the memory only after the work that is, at the last release, on the stream given to
 * gpur_replay_sample and on the streams given to gpur_batch_wait. Those CUDA streams must therefore still exist:
 * destroy a stream only after the batches that were read on it. If such a stream is under capture at the last release,
 * the pool sets the memory aside until a later sample or gather call finds that the capture has ended; the stream must
 * exist until then.
 */
GPUR_API void gpur_batch_release(gpur_batch *batch);

/* The most CUDA streams that can read one batch: the one given to gpur_replay_sample, and those of gpur_batch_wait. */
enum { GPUR_MAX_READERS = 8 };

/*
 * Lets one more CUDA stream read the batch. Work enqueued on `stream` after the call waits until the batch is filled,
 * and the memory is reused only after the work that is on this stream at the last release. Any thread.
 *
 *   stream   a cudaStream_t (1 is the legacy default stream). It must not be under capture now, and must exist until
 *            the last reference has been released (see gpur_batch_release). NULL: waits on the host, like
 *            gpur_batch_sync
 *
 *   GPUR_INVALID_ARGUMENT  NULL for the batch, a stream on the CPU, a stream under capture, more than GPUR_MAX_READERS
 *                          streams, or the stream 2 (cudaStreamPerThread), which means another stream in each thread,
 *                          so that the thread of the last release could not wait for it
 *   GPUR_DEVICE_ERROR      the device failed
 *
 *     gpur_replay_sample(replay, 256, stream, &batch);
 *     gpur_batch_wait(batch, other_stream); // from here on kernels on both streams may read the batch
 */
GPUR_API gpur_status gpur_batch_wait(gpur_batch *batch, void *stream);

/*
 * Wraps an array of the batch as a DLPack tensor, without a copy. Its shape is (count, ...), or (batch, length, ...) of
 * sequences (sequences.h). The tensor holds a reference of its own to the batch until its deleter is called, by any
 * thread. The call orders no streams: call gpur_batch_wait with the stream of the reader first. A GPUR_BOOL becomes
 * DLPack's type bool. In the child process of a fork the deleter does nothing. Any thread.
 *
 *   name       as in gpur_batch_get_array
 *   versioned  0: `managed` receives a DLManagedTensor; otherwise a DLManagedTensorVersioned of DLPack 1.0
 *   managed    receives the tensor, which the caller owns and ends by calling its deleter
 *
 *   GPUR_INVALID_ARGUMENT  no array has this name, or NULL
 *   GPUR_OUT_OF_MEMORY     no host memory for the descriptor
 *
 *     void *managed;
 *     gpur_batch_to_dlpack(batch, "obs", 0, &managed);
 *     gpur_batch_release(batch); // the tensor has a reference of its own
 *     DLManagedTensor *const tensor = managed; // of dlpack.h
 *     tensor->deleter(tensor);
 */
GPUR_API gpur_status gpur_batch_to_dlpack(gpur_batch *batch, const char *name, int32_t versioned, void **managed);

/*
 * Samples again, into the memory of an existing batch and with the same count. Like gpur_replay_sample after
 * gpur_batch_release, in one call and without a new batch. The addresses of the arrays do not change. Any thread.
 *
 *   stream  as in gpur_replay_sample; it replaces all streams that could read the batch so far
 *   batch   a batch of this replay, to which the caller holds the only reference
 *
 *   GPUR_INVALID_ARGUMENT  a batch of another replay, a stream that gpur_replay_sample refuses, or NULL
 *   GPUR_WOULD_BLOCK       there is another reference to the batch, or a stream that may read it is under capture or no
 *                          longer exists; the batch is unchanged
 *   GPUR_DEVICE_ERROR      CUDA failed; the batch is unchanged
 *   GPUR_TOO_FEW           as in gpur_replay_sample; the batch is unchanged
 */
GPUR_API gpur_status gpur_replay_sample_into(gpur_replay *replay, void *stream, gpur_batch *batch);

#ifdef __cplusplus
}
#endif
#endif
