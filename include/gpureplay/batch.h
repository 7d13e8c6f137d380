/* SPDX-License-Identifier: MIT */
/* A minibatch: its arrays, its references, and what other streams and other libraries need to read it. */
#ifndef GPUREPLAY_BATCH_H
#define GPUREPLAY_BATCH_H

#include "gpureplay/replay.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Transitions in the batch. NULL gives 0. */
GPUR_API int64_t gpur_batch_count(const gpur_batch *batch);

/*
 * The array of this name, (count, shape), and what it holds; `info` may be NULL. The memory is the batch's, and is
 * filled in behind the stream given to gpur_replay_sample, or after gpur_batch_sync.
 *
 *   GPUR_INVALID_ARGUMENT  no such name, NULL, or `info->size` was not set
 */
GPUR_API gpur_status gpur_batch_get_array(gpur_batch *batch, const char *name, void **device_memory,
                                          gpur_field_info *info);

/*
 * Where the arrays of a batch lie that most learners read, in memory of its device. NULL where the schema has no such
 * field. Shapes and types are the schema's, as gpur_batch_get_array tells, which other fields are asked of, too.
 */
typedef struct gpur_batch_view {
    uint64_t size;       /* sizeof(gpur_batch_view), as the caller was compiled: set it before the call */
    int64_t count;       /* transitions */
    void *obs;           /* (count, ...) */
    void *action;        /* (count, ...) */
    void *reward;        /* (count, ...) */
    void *next_obs;      /* (count, ...) */
    uint8_t *terminated; /* (count) 0 or 1 */
    void *truncated;     /* (count, ...) */
    float *discount;     /* (count) never NULL, as the next two */
    float *weight;       /* (count) */
    int64_t *id;         /* (count) */
} gpur_batch_view;

/*
 * Fills in all of that. The memory is the batch's: it stays where it is until the last reference is released, also
 * through gpur_replay_resample, and is filled in behind the stream given to gpur_replay_sample, or after
 * gpur_batch_sync. Any thread.
 *
 *   GPUR_INVALID_ARGUMENT  NULL, or `view->size` was not set
 */
GPUR_API gpur_status gpur_batch_get_view(gpur_batch *batch, gpur_batch_view *view);

/* Waits until the batch is filled in. GPUR_INVALID_ARGUMENT: NULL. GPUR_DEVICE_ERROR: the device failed. */
GPUR_API gpur_status gpur_batch_sync(gpur_batch *batch);

/* Waits as gpur_batch_sync does, then copies one array to host memory of exactly `bytes` bytes, on a stream of the
 * library, and waits for that. GPUR_INVALID_ARGUMENT: no such name, another number of bytes, or NULL. */
GPUR_API gpur_status gpur_batch_read(gpur_batch *batch, const char *name, void *host, int64_t bytes);

/* One more reference. Takes NULL. */
GPUR_API void gpur_batch_retain(gpur_batch *batch);

/*
 * One reference less; the last gives the memory back to the pool, to be used again behind what the streams that may
 * read it hold now: the CUDA stream given to gpur_replay_sample, gpur_replay_resample or gpur_replay_gather, and those
 * given to gpur_batch_wait. All of these must still live: destroy a stream only after the batches that were read on it.
 * A stream that is being captured into a graph now is asked when a later batch is drawn and the capture has ended, and
 * must live until then; the memory stays aside until it can be asked. Takes NULL. Any thread.
 */
GPUR_API void gpur_batch_release(gpur_batch *batch);

/* Most CUDA streams that may read one batch. */
enum { GPUR_MAX_READERS = 8 };

/*
 * Makes the caller's CUDA stream wait until the batch is filled in; its memory is then used again, after the last
 * release, only behind what that stream holds at the release. For a batch that is read on another stream than the one
 * it was drawn for. With NULL: waits on the host, as gpur_batch_sync. Any thread.
 *
 *   stream   a cudaStream_t (1 is the legacy default stream), which must not be under capture into a graph now, and
 *            must outlive the batch: see gpur_batch_release
 *
 *   GPUR_INVALID_ARGUMENT  a stream on the CPU, one under capture, 2 (the calling thread's own: the thread that
 *                          releases has another), more than GPUR_MAX_READERS streams, or NULL for the batch
 */
GPUR_API gpur_status gpur_batch_wait(gpur_batch *batch, void *stream);

/*
 * An array of the batch as a DLPack tensor, which holds a reference of its own to the batch: a DLManagedTensor
 * (`versioned` 0), or a DLManagedTensorVersioned of DLPack 1.0 (1), to be given back by its own deleter, on any thread.
 * No copy. Orders nothing: call gpur_batch_wait with the consumer's stream first. A GPUR_BOOL has DLPack's type bool.
 * Any thread.
 *
 *   GPUR_INVALID_ARGUMENT  no such array, or NULL
 *   GPUR_OUT_OF_MEMORY     no memory for the descriptor
 */
GPUR_API gpur_status gpur_batch_to_dlpack(gpur_batch *batch, const char *name, int32_t versioned, void **managed);

/*
 * Draws anew into a batch that this replay drew before, as many transitions as it has: what gpur_batch_release and
 * gpur_replay_sample would do, in one call and in the same memory. Threads, draws and `stream` as gpur_replay_sample.
 *
 *   GPUR_INVALID_ARGUMENT  a batch of another replay, a stream on the CPU, or NULL
 *   GPUR_WOULD_BLOCK       somebody else holds a reference to the batch, or a stream that may read it is being captured
 *                          or is gone; nothing has changed
 *   GPUR_TOO_FEW           as gpur_replay_sample; nothing has changed
 */
GPUR_API gpur_status gpur_replay_resample(gpur_replay *replay, void *stream, gpur_batch *batch);

#ifdef __cplusplus
}
#endif
#endif
