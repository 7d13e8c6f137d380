/* SPDX-License-Identifier: MIT */
/*
 * The consumers of a replay: threads that sample, train, or read rows by their ids. A FIFO (ticket) lock serializes
 * their launches on the consumer stream, so that a thread that samples is not starved by one that trains in a loop.
 * Between begin and end the caller enqueues one launch on that stream; it may have any number of gathers.
 *
 * What a launch sees: under GPUR_FLUSH_AUTO every row that was appended before begin; under GPUR_FLUSH_MANUAL the
 * blocks that were full or flushed before. A block that overwrites rows is copied while the launch after its upload
 * runs, and is seen by the launch after that one; gpur_writer_flush makes the next launch see it. All of this follows
 * from the order of calls.
 */
#pragma once

#include "base/ticket_lock.h"
#include "device/device.h"
#include "gpureplay/replay.h"

typedef struct gpur_consumer {
    gpur_ticket_lock lock; /* held from gpur_consumer_begin to gpur_consumer_end; protects all members */
    gpur_stream *stream;   /* sampling and training */
    gpur_event *done[2];   /* done[n % 2] is recorded at the end of launch n */
    gpur_event *handed;    /* where a launch on the stream of another replay begins, and where it ends */
    int64_t launches;      /* launches that have ended; also the number of the one in progress, or of the next */
    int64_t samples;       /* samples taken so far; the step of the next sample's random numbers */
    int64_t *ids;          /* (2, max_batch) pinned: callers' ids on their way to the device; launch n uses row n % 2 */
} gpur_consumer;

gpur_status gpur_consumer_build(gpur_replay *replay);
void gpur_consumer_destroy(gpur_replay *replay); /* after both streams; also after a failed build */

/* What a launch publishes, and the rows that it needs. */
typedef enum gpur_launch_kind {
    GPUR_LAUNCH_SAMPLE,  /* publishes the rows that are due; needs `rows` visible rows, 1 to max_batch, at any time
                                until its end, and `burn_in` rows that have become visible so far */
    GPUR_LAUNCH_REFRESH, /* reads or changes rows by their ids: publishes what a sample would publish now, and sees
                                the same rows, even if there are none */
    GPUR_LAUNCH_WITHOUT_PUBLISHING, /* reads or writes memory that other launches use: publishes nothing */
} gpur_launch_kind;

typedef struct gpur_consumer_launch {
    gpur_launch_kind kind;
    int64_t rows, burn_in; /* GPUR_LAUNCH_SAMPLE */
} gpur_consumer_launch;

extern const gpur_consumer_launch gpur_consumer_refresh, gpur_consumer_without_publishing;

/*
 * Takes the consumer lock, waits until at most one earlier launch is in flight, and publishes as the kind says. On
 * GPUR_OK the caller must call gpur_consumer_end, even if its own launch failed; otherwise the lock has been released.
 *
 *   GPUR_TOO_FEW  a sample would see too few rows now, or the burn-in is not over
 */
gpur_status gpur_consumer_begin(gpur_replay *replay, gpur_consumer_launch launch, gpur_stream **stream);

/*
 * The same in two steps, for a launch that allocates memory first: gpur_consumer_lock takes the lock and publishes
 * nothing, so a caller that finds no memory can release it with gpur_consumer_unlock and has changed nothing.
 * gpur_consumer_begin_locked begins the launch; it releases the lock if it fails. gpur_consumer_check, called in
 * between, refuses a sample that gpur_consumer_begin_locked would refuse.
 */
void gpur_consumer_lock(gpur_replay *replay);
gpur_status gpur_consumer_check(gpur_replay *replay, gpur_consumer_launch sample);
gpur_status gpur_consumer_begin_locked(gpur_replay *replay, gpur_consumer_launch launch, gpur_stream **stream);
void gpur_consumer_unlock(gpur_replay *replay);

/* Marks the end of the launch and releases the consumer lock. Returns the launch's `status` if that is an error. */
gpur_status gpur_consumer_end(gpur_replay *replay, gpur_status status);

/*
 * The same for one launch that reads two replays of a device, on the stream of the first: takes both consumer locks,
 * always in the same order, whichever replay is the first, and begins both launches or none. Meanwhile what appends
 * enqueue for the second replay goes to the stream of the first, too, so that the rows that they evict are gone for the
 * gathers behind them. `second` NULL: these are gpur_consumer_begin and gpur_consumer_end. Refusals about the second
 * replay begin with "demonstrations: ".
 */
gpur_status gpur_consumer_begin_both(gpur_replay *first, gpur_consumer_launch launch, gpur_replay *second,
                                     gpur_consumer_launch second_launch, gpur_stream **stream);
gpur_status gpur_consumer_end_both(gpur_replay *first, gpur_replay *second, gpur_status status);

/*
 * Takes the consumer lock for a checkpoint: publishes everything appended, pauses the writers, and waits for enqueued
 * work. Until gpur_consumer_end_exclusive no writer call runs, and only the caller enqueues work on the ring, on
 * `stream`. On GPUR_OK the caller must call gpur_consumer_end_exclusive, which also releases the lock and returns
 * `status` if it is an error.
 */
gpur_status gpur_consumer_begin_exclusive(gpur_replay *replay, gpur_stream **stream);
gpur_status gpur_consumer_end_exclusive(gpur_replay *replay, gpur_status status);

/* Refuses ids that a launch could not see if it began now; the message has the id and the visible range. GPUR_EVICTED:
 * the row was visible once; GPUR_INVALID_ARGUMENT: any other id. To be called before begin, so that a refused call
 * publishes nothing. Accepts all ids if the replay is empty, because begin refuses that. */
gpur_status gpur_consumer_check_ids(gpur_replay *replay, int64_t count, const int64_t *ids);

/* The same for an update, which skips what it cannot find: ids of evicted rows pass, and -1, with which batches mark
 * that there is no row. No id passes while no row is visible, except -1. */
gpur_status gpur_consumer_check_ids_of_update(gpur_replay *replay, int64_t count, const int64_t *ids);

/* Work to be enqueued under the window lock. */
typedef gpur_status (*gpur_locked_fn)(void *context);

/* Calls fn(context) with the window lock held, during a launch: the window does not change between the kernels that it
 * enqueues, so no sampled row is evicted before it is gathered. */
gpur_status gpur_with_window_locked(gpur_replay *replay, gpur_locked_fn fn, void *context);

/* The same for rows given by their ids, which it checks under the lock as gpur_consumer_check_ids does. */
gpur_status gpur_with_ids_locked(gpur_replay *replay, int64_t count, const int64_t *ids, gpur_locked_fn fn,
                                 void *context);
