/* SPDX-License-Identifier: MIT */
/*
 * Minibatches: their arrays, references to them, and how other CUDA streams and other libraries read them.
 *
 * A batch and its memory belong to the replay's pool. gpur_replay_sample and gpur_replay_gather (replay.h) give the
 * caller one reference; gpur_batch_release gives it back, and the pool reuses the memory when the last one has been
 * given back. "Device memory" is the memory of the replay's device: ordinary host memory where that is the CPU.
 */
#ifndef GPUREPLAY_BATCH_H
#define GPUREPLAY_BATCH_H

#include "gpureplay/replay.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The number of transitions in the batch. NULL gives 0. */
GPUR_API int64_t gpur_batch_count(const gpur_batch *batch);

/*
 * Finds one array of the batch: a field of the schema, "discount", "weight" or "id" (see gpur_batch in replay.h).
 *
 *   device_memory  gets the address of the array in device memory: (count, ...) elements, contiguous, aligned to 256
 *                  bytes. It belongs to the batch, and stays where it is until the last reference is released. The
 *                  contents are there after gpur_batch_sync, or for work enqueued later on the stream that was given
 *                  to gpur_replay_sample
 *   info           gets the array's type and shape; may be NULL
 *
 *   GPUR_INVALID_ARGUMENT  no array has this name, NULL, or `info->size` was not set
 */
GPUR_API gpur_status gpur_batch_get_array(gpur_batch *batch, const char *name, void **device_memory,
                                          gpur_field_info *info);

/*
 * The addresses of the arrays that most learners read, in device memory. A field that the schema does not have is NULL.
 * Shapes and types are those of the schema. For any other field, call gpur_batch_get_array.
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
 * gpur_replay_resample draws into the batch anew. When the contents are there: see gpur_batch_get_array. Any thread.
 *
 *   GPUR_INVALID_ARGUMENT  NULL, or `view->size` was not set
 */
GPUR_API gpur_status gpur_batch_get_view(gpur_batch *batch, gpur_batch_view *view);

/* Waits on the host until the contents of the batch are there. GPUR_INVALID_ARGUMENT: NULL. GPUR_DEVICE_ERROR: the
 * device failed. */
GPUR_API gpur_status gpur_batch_sync(gpur_batch *batch);

/*
 * Copies one array to host memory, and returns when it is there. Needs no gpur_batch_sync before.
 *
 *   host   (count, ...) elements as in the array
 *   bytes  the size of `host`, which must be that of the array
 *
 *   GPUR_INVALID_ARGUMENT  no array has this name, `bytes` is not its size, or NULL
 */
GPUR_API gpur_status gpur_batch_read(gpur_batch *batch, const char *name, void *host, int64_t bytes);

/* Adds a reference, which must be released, too. NULL does nothing. */
GPUR_API void gpur_batch_retain(gpur_batch *batch);

/*
 * Releases one reference. The last release gives the memory back to the pool, which uses it again only after the work
 * that is enqueued now on the stream of the draw and on the streams given to gpur_batch_wait. Those CUDA streams must
 * therefore still exist: destroy a stream only after the batches that were read on it. If such a stream is being
 * captured into a graph now, the pool sets the memory aside until a later draw finds that the capture has ended; the
 * stream must exist until then. NULL does nothing. Any thread.
 */
GPUR_API void gpur_batch_release(gpur_batch *batch);

/* The most CUDA streams that can be given to gpur_batch_wait for one batch. */
enum { GPUR_MAX_READERS = 8 };

/*
 * Lets another CUDA stream read the batch than the one that it was drawn for: work enqueued on `stream` from now on
 * waits until the contents are there, and the memory is reused only after the work that this stream holds at the last
 * release. With a NULL stream it waits on the host, as gpur_batch_sync does. Any thread.
 *
 *   stream   a cudaStream_t (1 is the legacy default stream). It must not be captured into a graph now, and it must
 *            exist until the last reference has been released (see gpur_batch_release)
 *
 *   GPUR_INVALID_ARGUMENT  a stream where the device is the CPU, one that is being captured, the value 2 (the
 *                          per-thread default stream, which is another one in the thread that releases), more than
 *                          GPUR_MAX_READERS streams, or NULL for the batch
 */
GPUR_API gpur_status gpur_batch_wait(gpur_batch *batch, void *stream);

/*
 * Wraps an array of the batch as a DLPack tensor, without a copy. The tensor holds a reference of its own to the batch
 * until its deleter is called, which any thread may do. The call orders no streams: call gpur_batch_wait with the
 * stream of the reader first. A GPUR_BOOL becomes DLPack's type bool. Any thread.
 *
 *   versioned  0: `managed` gets a DLManagedTensor; 1: a DLManagedTensorVersioned of DLPack 1.0
 *
 *   GPUR_INVALID_ARGUMENT  no array has this name, or NULL
 *   GPUR_OUT_OF_MEMORY     no host memory for the descriptor
 */
GPUR_API gpur_status gpur_batch_to_dlpack(gpur_batch *batch, const char *name, int32_t versioned, void **managed);

/*
 * Draws a new batch of the same size into the memory of an old one. It does what gpur_batch_release and
 * gpur_replay_sample would do, in one call. The rules for threads, draws and `stream` are those of gpur_replay_sample.
 *
 *   batch  a batch of this replay, to which the caller holds the only reference
 *
 *   GPUR_INVALID_ARGUMENT  a batch of another replay, a stream where the device is the CPU, or NULL
 *   GPUR_WOULD_BLOCK       there is another reference to the batch, or a stream that may read it is being captured into
 *                          a graph or no longer exists; the batch is unchanged
 *   GPUR_TOO_FEW           as gpur_replay_sample; the batch is unchanged
 */
GPUR_API gpur_status gpur_replay_resample(gpur_replay *replay, void *stream, gpur_batch *batch);

#ifdef __cplusplus
}
#endif
#endif
