/* SPDX-License-Identifier: MIT */
/* What the calls that fill batches for callers share: gpur_replay_sample, gpur_replay_gather and
 * gpur_replay_sample_sequences. */
#pragma once

#include "replay/replay.h"

/* Refuses a bad count, stream or NULL, and sets *batch to NULL. */
gpur_status gpur_fill_check(const gpur_replay *replay, int64_t count, void *stream, gpur_batch **batch);

/* The same for filling an existing batch again, which must be of this replay and have a single reference. */
gpur_status gpur_fill_check_again(const gpur_replay *replay, void *stream, gpur_batch *batch);

/* Takes the consumer lock, gets a batch to fill, and begins the launch. In this order nothing has been published if
 * there is no memory for the batch. On GPUR_OK the caller must call gpur_fill_end. */
gpur_status gpur_fill_begin(gpur_replay *replay, gpur_consumer_launch launch, int64_t count, gpur_stream **stream,
                            gpur_batch **batch);

/* Sets what changes from one gather into the batch to the next: where its rows come from (GPUR_GATHER_*), and the
 * number of the sample. Prepares batch->gather_plan at the batch's first gather. */
gpur_status gpur_fill_set_gather(gpur_replay *replay, gpur_batch *batch, int32_t source);

/* Marks the batch as filled, lets the caller's stream `native` read it (NULL: none), and counts its rows. */
gpur_status gpur_fill_finish(gpur_replay *replay, gpur_batch *batch, gpur_stream *stream, void *native);

/* Ends the launch, and gives the batch to the caller if it was filled. */
gpur_status gpur_fill_end(gpur_replay *replay, gpur_status filled, gpur_batch *batch, gpur_batch **out);
