/* SPDX-License-Identifier: MIT */
/*
 * Taking turns: draws and learners' launches follow one another on the replay's consumer stream, in the order in which
 * their threads asked, so that none starves beside one that trains in a loop. Between begin and end the caller enqueues
 * one launch, on that stream; it may hold any number of gathers.
 *
 * What a launch sees: under GPUR_FLUSH_AUTO every row that was appended before begin; under GPUR_FLUSH_MANUAL the
 * blocks that were sealed before. A block that overwrites rows is copied while the launch after its sealing runs, and
 * is seen by the launch after that one, unless gpur_writer_flush asked for the next. All of it is decided by the order
 * of calls.
 */
#ifndef GPUR_REPLAY_SAMPLER_CONSUMER_H
#define GPUR_REPLAY_SAMPLER_CONSUMER_H

#include "device/device.h"
#include "gpureplay/replay.h"

/*
 * Takes the turn: waits for the turn before, and until at most one earlier launch is in flight; publishes by the flush
 * mode. On GPUR_OK the caller must call gpur_consumer_end, also when its own launch failed. At any time from here to
 * the end of the launch the window holds at least `needed` rows, for any `needed` up to max_batch.
 *
 * `needed` 0 asks for no rows: a turn to read or write what launches use, which publishes nothing.
 *
 *   GPUR_TOO_FEW  a draw made now would see fewer than `needed` rows; the turn is given back
 */
gpur_status gpur_consumer_begin(gpur_replay *replay, int64_t needed, gpur_stream **stream);

/* The same for a draw, which also waits for the replay's burn-in. GPUR_TOO_FEW: fewer than min_size rows have become
 * visible so far. */
gpur_status gpur_consumer_begin_draw(gpur_replay *replay, int64_t needed, gpur_stream **stream);

/*
 * The same in two steps, for a launch that wants memory first: between them nothing has been published, so that a
 * caller who finds no memory gives the turn back and has changed nothing. gpur_consumer_check refuses between them what
 * gpur_consumer_begin_in_turn would refuse. `burn_in`: rows that must have become visible so far.
 */
void gpur_consumer_take_turn(gpur_replay *replay);
gpur_status gpur_consumer_check(gpur_replay *replay, int64_t needed, int64_t burn_in);
gpur_status gpur_consumer_begin_in_turn(gpur_replay *replay, int64_t needed, int64_t burn_in, gpur_stream **stream);
void gpur_consumer_give_turn(gpur_replay *replay);

/* The same for what is asked of rows by their ids and draws none: it finds what a draw made now would see, none
 * included. Under GPUR_FLUSH_AUTO it publishes, under GPUR_FLUSH_MANUAL nothing. */
gpur_status gpur_consumer_begin_look(gpur_replay *replay, gpur_stream **stream);

/* Marks the end of the launch and gives the turn back. */
gpur_status gpur_consumer_end(gpur_replay *replay);

/*
 * A turn for a checkpoint: all that was appended has been published, no writer is in a call until the end of the turn,
 * and nothing is enqueued that reads or writes the ring but by the caller, on `stream`. On GPUR_OK the caller must call
 * gpur_consumer_thaw, which ends the turn.
 */
gpur_status gpur_consumer_freeze(gpur_replay *replay, gpur_stream **stream);
gpur_status gpur_consumer_thaw(gpur_replay *replay);

/* Refuses ids that a launch begun now could not see, with the id and the range: GPUR_EVICTED for one that was visible
 * once, GPUR_INVALID_ARGUMENT for any other. Before begin, so that a refused call
 * publishes nothing; on an empty replay, which begin refuses, it says nothing. */
gpur_status gpur_consumer_refuse_ids(gpur_replay *replay, int64_t count, const int64_t *ids);

/*
 * The same for the launch of this turn, between begin and end. On GPUR_OK no append gets on until gpur_consumer_let_go,
 * and so none evicts one of the rows before their gather has been enqueued.
 */
gpur_status gpur_consumer_hold_ids(gpur_replay *replay, int64_t count, const int64_t *ids);
void gpur_consumer_let_go(gpur_replay *replay);

/* Likewise for a draw and its gather that are launches of their own: until gpur_consumer_let_go the device's window
 * stays as it is, so that what was drawn is there to be gathered. */
void gpur_consumer_hold(gpur_replay *replay);

#endif
