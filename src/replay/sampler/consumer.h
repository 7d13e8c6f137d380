/* SPDX-License-Identifier: MIT */
/*
 * The consumer lock. A FIFO (ticket) lock serializes the launches of threads that sample or train on the replay's
 * consumer stream, so that a thread that samples is not starved by one that trains in a loop. Between begin and end the
 * caller enqueues one launch on that stream; it may have any number of gathers.
 *
 * What a launch sees: under GPUR_FLUSH_AUTO every row that was appended before begin; under GPUR_FLUSH_MANUAL the
 * blocks that were full or flushed before. A block that overwrites rows is copied while the launch after its upload
 * runs, and is seen by the launch after that one; gpur_writer_flush makes the next launch see it. All of this follows
 * from the order of calls.
 */
#ifndef GPUR_REPLAY_SAMPLER_CONSUMER_H
#define GPUR_REPLAY_SAMPLER_CONSUMER_H

#include "device/device.h"
#include "gpureplay/replay.h"

/*
 * Takes the consumer lock, waits until at most one earlier launch is in flight, and publishes as the flush mode says.
 * On GPUR_OK the caller must call gpur_consumer_end, even if its own launch failed; otherwise the lock has been
 * released. From here to the end of the launch the window always has at least `needed` rows, for any `needed` up to
 * max_batch.
 *
 * `needed` 0 asks for no rows: the launch reads or writes memory that other launches use, and publishes nothing.
 *
 *   GPUR_TOO_FEW  a sample would see fewer than `needed` rows now
 */
gpur_status gpur_consumer_begin(gpur_replay *replay, int64_t needed, gpur_stream **stream);

/* The same for a sample, which also needs the burn-in to be over. GPUR_TOO_FEW: fewer than min_size rows have become
 * visible so far. */
gpur_status gpur_consumer_begin_draw(gpur_replay *replay, int64_t needed, gpur_stream **stream);

/*
 * The same in two steps, for a launch that allocates memory first: gpur_consumer_take_turn takes the lock and publishes
 * nothing, so a caller that finds no memory can release the lock with gpur_consumer_give_turn and has changed nothing.
 * gpur_consumer_begin_in_turn begins the launch; it releases the lock if it fails. gpur_consumer_check, called in
 * between, refuses what gpur_consumer_begin_in_turn would refuse. `burn_in`: rows that must have become visible so far.
 */
void gpur_consumer_take_turn(gpur_replay *replay);
gpur_status gpur_consumer_check(gpur_replay *replay, int64_t needed, int64_t burn_in);
gpur_status gpur_consumer_begin_in_turn(gpur_replay *replay, int64_t needed, int64_t burn_in, gpur_stream **stream);
void gpur_consumer_give_turn(gpur_replay *replay);

/* The same for a launch that reads or changes rows by their ids and does not sample. It publishes what a sample would
 * publish now, and sees the same rows, even if there are none. */
gpur_status gpur_consumer_begin_look(gpur_replay *replay, gpur_stream **stream);

/* Marks the end of the launch and releases the consumer lock. */
gpur_status gpur_consumer_end(gpur_replay *replay);

/*
 * Takes the consumer lock for a checkpoint: publishes everything appended, pauses the writers, and waits for enqueued
 * work. Until gpur_consumer_thaw no writer call runs, and only the caller enqueues work on the ring, on `stream`. On
 * GPUR_OK the caller must call gpur_consumer_thaw, which also releases the lock.
 */
gpur_status gpur_consumer_freeze(gpur_replay *replay, gpur_stream **stream);
gpur_status gpur_consumer_thaw(gpur_replay *replay);

/* Refuses ids that a launch could not see if it began now; the message has the id and the visible range. GPUR_EVICTED:
 * the row was visible once; GPUR_INVALID_ARGUMENT: any other id. To be called before begin, so that a refused call
 * publishes nothing. Accepts all ids if the replay is empty, because begin refuses that. */
gpur_status gpur_consumer_refuse_ids(gpur_replay *replay, int64_t count, const int64_t *ids);

/*
 * Makes the same check for the current launch, between begin and end. On GPUR_OK the caller holds the window lock,
 * which is the ingest lock, until gpur_consumer_let_go: no append can proceed, so none evicts one of the rows before
 * their gather is enqueued.
 */
gpur_status gpur_consumer_hold_ids(gpur_replay *replay, int64_t count, const int64_t *ids);
void gpur_consumer_let_go(gpur_replay *replay);

/* Takes the window lock until gpur_consumer_let_go, for a sample and a gather that are separate kernel launches: the
 * window does not change between them, so no sampled row is evicted before it is gathered. */
void gpur_consumer_hold(gpur_replay *replay);

#endif
