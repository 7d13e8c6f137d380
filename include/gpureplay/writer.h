/* SPDX-License-Identifier: MIT */
/* A writer: one source of experience, which serves any number of environments. */
#ifndef GPUREPLAY_WRITER_H
#define GPUREPLAY_WRITER_H

#include "gpureplay/replay.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Used by one thread at a time; any number of writers on any number of threads feed one replay at once. */
typedef struct gpur_writer gpur_writer;

/* Makes a writer for `num_envs` environments, 1 or more. GPUR_INVALID_ARGUMENT: fewer, or NULL. */
GPUR_API gpur_status gpur_writer_create(gpur_replay *replay, int32_t num_envs, gpur_writer **writer);

/* Flushes, and counts the episodes still open as cut (each as if truncated). Takes NULL. */
GPUR_API void gpur_writer_destroy(gpur_writer *writer);

/*
 * Begins an episode of environment `env`, or of all of them with env = -1.
 *
 *   obs   (...) of one observation, or (num_envs, ...) with -1; the schema's dtype; host memory
 */
GPUR_API gpur_status gpur_writer_reset(gpur_writer *writer, int32_t env, const void *obs);

/*
 * Completes one transition of every environment: from the observation last given, by `action`, to `next_obs`, which is
 * the episode's final observation where it ended (never the next episode's first). An environment that terminated or was
 * truncated must be reset before its next step. Needs a schema of obs, action, reward, next_obs, terminated and, if
 * wanted, truncated; a schema with more fields is fed by gpur_writer_append_fields. Host memory, the schema's dtypes:
 *
 *   action     (num_envs, ...)
 *   reward     (num_envs) float32, clipped if the replay says so
 *   next_obs   (num_envs, ...)
 *   terminated (num_envs) uint8: the task ended; nothing is bootstrapped
 *   truncated  (num_envs) uint8: the episode was cut off; next_obs is bootstrapped from. NULL: none
 *
 *   GPUR_INVALID_ARGUMENT  an environment was not reset, terminated and truncated are not 0 or 1, or NULL
 *   GPUR_WOULD_BLOCK       no room for all num_envs rows, under GPUR_WHEN_FULL_ERROR: none was taken, call again
 */
GPUR_API gpur_status gpur_writer_step(gpur_writer *writer, const void *action, const float *reward,
                                      const void *next_obs, const uint8_t *terminated, const uint8_t *truncated);

/*
 * Adds finished rows, packed as gpur_replay_get_field tells (an array of matching C structs will do). Rewards are clipped
 * if the replay says so.
 *
 *   rows       (count, row_bytes) host memory, free to reuse when the call returns
 *   appended   how many were taken, which is `count` unless the call fails; may be NULL
 *
 *   GPUR_WOULD_BLOCK  under GPUR_WHEN_FULL_ERROR; `appended` rows were taken, the rest is still the caller's
 */
GPUR_API gpur_status gpur_writer_append(gpur_writer *writer, int64_t count, const void *rows, int64_t *appended);

/*
 * Adds finished rows given field by field, in the schema's order, all in host memory or all in memory of the replay's
 * device. Device arrays do not visit the host: a scatter-update kernel writes them into the ring. Rewards are clipped if
 * the replay says so.
 *
 * Host arrays are staged as rows are. Device arrays (on the CPU: any, where the replay has GPUR_FEED_SCATTER) are blocks
 * of their own and go to the ring at once, behind what is staged, so that ids follow the order of appends: under
 * GPUR_FLUSH_MANUAL both are then published as whole blocks are.
 *
 *   fields     (field_count) pointers, each to (count, ...) contiguous elements
 *   stream     CUDA, device arrays: the cudaStream_t that made them; it is ordered before the reading, and after it
 *              for whatever the caller enqueues next. NULL: the arrays are ready now, and have been read on return
 */
GPUR_API gpur_status gpur_writer_append_fields(gpur_writer *writer, int64_t count, const void *const *fields,
                                               void *stream, int64_t *appended);

/* Seals the partly filled block, so that the next draw sees its rows. Not needed under GPUR_FLUSH_AUTO. */
GPUR_API gpur_status gpur_writer_flush(gpur_writer *writer);

#ifdef __cplusplus
}
#endif
#endif
