/* SPDX-License-Identifier: MIT */
/* A writer: one source of experience, which serves any number of environments. */
#ifndef GPUREPLAY_WRITER_H
#define GPUREPLAY_WRITER_H

#include "gpureplay/replay.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Used by one thread at a time; any number of writers on any number of threads feed one replay at once. Any call may
 * also answer GPUR_DEVICE_ERROR; the replay can then only be destroyed. But for device arrays nothing here knows of a
 * CUDA stream: what the caller gives is host memory, read before the call returns.
 */
typedef struct gpur_writer gpur_writer;

/*
 * Makes a writer for `num_envs` environments. Any thread, at any time in the life of the replay.
 *
 *   GPUR_INVALID_ARGUMENT  num_envs < 1, or more than the staging blocks can take at once under GPUR_WHEN_FULL_ERROR
 *                          (the message has how many that is), or NULL
 *   GPUR_OUT_OF_MEMORY     no host memory for the last observation of each environment
 */
GPUR_API gpur_status gpur_writer_create(gpur_replay *replay, int32_t num_envs, gpur_writer **writer);

/* Flushes, and counts the episodes still open as cut (each as if truncated). Before the replay goes. Takes NULL. */
GPUR_API void gpur_writer_destroy(gpur_writer *writer);

/*
 * Begins an episode of environment `env`, or of all of them with env = -1.
 *
 * An episode that is open is given up: its transitions stay, and it is not counted as cut.
 *
 *   obs   (...) of one observation, or (num_envs, ...) with -1; the schema's dtype; host memory, copied
 *
 *   GPUR_INVALID_ARGUMENT  env is not -1 to num_envs - 1, NULL, or a schema that gpur_writer_step cannot feed
 */
GPUR_API gpur_status gpur_writer_reset(gpur_writer *writer, int32_t env, const void *obs);

/*
 * Completes one transition of every environment: from the observation last given, by `action`, to `next_obs`, which is
 * the episode's final observation where it ended (never the next episode's first). An environment that terminated or
 * was truncated must be reset before its next step. Needs a schema of obs, action, reward, next_obs, terminated and, if
 * wanted, truncated; a schema with more fields is fed by gpur_writer_append_fields. Host memory, the schema's dtypes:
 *
 *   action     (num_envs, ...)
 *   reward     (num_envs) float32, clipped if the replay says so
 *   next_obs   (num_envs, ...)
 *   terminated (num_envs) uint8: the task ended; nothing is bootstrapped
 *   truncated  (num_envs) uint8: the episode was cut off; next_obs is bootstrapped from. NULL: none
 *
 *   GPUR_INVALID_ARGUMENT  an environment was not reset, terminated and truncated are not 0 or 1, NULL, or a schema
 *                          other than that
 *   GPUR_WOULD_BLOCK       no room for all num_envs rows, under GPUR_WHEN_FULL_ERROR: none was taken, call again
 */
GPUR_API gpur_status gpur_writer_step(gpur_writer *writer, const void *action, const float *reward,
                                      const void *next_obs, const uint8_t *terminated, const uint8_t *truncated);

/*
 * Adds finished rows, packed as gpur_replay_get_field tells (an array of matching C structs will do). Rewards are
 * clipped if the replay says so.
 *
 *   rows       (count, row_bytes) host memory, free to reuse when the call returns
 *   appended   how many were taken, which is `count` unless the call fails; may be NULL
 *
 *   GPUR_INVALID_ARGUMENT  count < 0, or NULL
 *   GPUR_WOULD_BLOCK       under GPUR_WHEN_FULL_ERROR; `appended` rows were taken, the rest is still the caller's
 */
GPUR_API gpur_status gpur_writer_append(gpur_writer *writer, int64_t count, const void *rows, int64_t *appended);

/*
 * Adds finished rows given field by field, in the schema's order, all in host memory or all in memory of the replay's
 * device. Device arrays do not visit the host: a scatter-update kernel writes them into the ring. Rewards are clipped
 * if the replay says so, wherever they lie.
 *
 * Host arrays are staged as rows are. Device arrays (on the CPU: any, where the replay has GPUR_FEED_SCATTER) are
 * blocks of their own: the call seals what is staged, so that ids follow the order of appends, and both go to the ring
 * at once, also under GPUR_FLUSH_MANUAL, and are published as whole blocks are. They need no staging block, so they
 * never answer GPUR_WOULD_BLOCK.
 *
 *   fields     (field_count) pointers, each to (count, ...) contiguous elements
 *   stream     CUDA, device arrays: the cudaStream_t that made them; it is ordered before the reading, and after it
 *              for whatever the caller enqueues next. NULL: the arrays are ready now, and have been read on return;
 *              other threads go on while this one waits for that
 *   appended   as in gpur_writer_append
 *
 *   GPUR_INVALID_ARGUMENT  count < 0, NULL, arrays of which some lie in host and some in device memory, or a stream on
 *                          the CPU
 *   GPUR_WOULD_BLOCK       host arrays: as in gpur_writer_append
 */
GPUR_API gpur_status gpur_writer_append_fields(gpur_writer *writer, int64_t count, const void *const *fields,
                                               void *stream, int64_t *appended);

/*
 * The same for `count` transitions in host memory, all or none, at once or not at all: for a thread with a deadline, or
 * one that holds what others want, as an interpreter's lock. It waits for no lock, for no staging block, whatever
 * when_full says, and for no draw or training launch: where it would have to enqueue behind one that another thread is
 * enqueuing (on the CPU: carrying out), since it overwrites what that may read, it answers GPUR_WOULD_BLOCK. What it
 * takes is the copying of its rows and of the blocks that they fill; and a stream whose queue is full (CUDA's, or the
 * 256 operations of GPUR_EXECUTOR_THREAD) makes everyone wait for its device. Under GPUR_FEED_SCATTER, too, the arrays
 * are staged.
 *
 *   fields  (field_count) pointers, each to (count, ...) contiguous elements in host memory
 *
 *   GPUR_INVALID_ARGUMENT  count < 0, or NULL
 *   GPUR_WOULD_BLOCK       another thread is at it or amid a launch, or there is no room now (never for more than
 *                          staging_blocks x update_size); nothing was taken
 */
GPUR_API gpur_status gpur_writer_try_append_fields(gpur_writer *writer, int64_t count, const void *const *fields);

/* Seals the partly filled block, other writers' rows in it included, so that the next draw sees its rows; waits for
 * threads that are filling it. Not needed under GPUR_FLUSH_AUTO. GPUR_INVALID_ARGUMENT: NULL. */
GPUR_API gpur_status gpur_writer_flush(gpur_writer *writer);

#ifdef __cplusplus
}
#endif
#endif
