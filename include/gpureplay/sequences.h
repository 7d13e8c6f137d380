/* SPDX-License-Identifier: MIT */
/*
 * Sequences: batches of successive transitions of an environment, for recurrent agents and world models. The terms are
 * those of replay.h.
 *
 * The schema must have the field `previous`, one int64 (see gpur_writer_step_ex), and no field "mask" or "is_first". A
 * sequence is found from its last row: that row is chosen, and `previous` is followed back through the window. So the
 * rows of a sequence are of one environment, whatever others write to the replay, and none has been evicted. A caller
 * can choose last rows but not first ones, because no row has a link to the one after it. A writer can say which rows
 * end sequences (gpur_writer_config.sequence_length), so that these begin where episodes do, or so many rows apart.
 *
 *     gpur_sequence_config config;
 *     gpur_sequence_config_init(&config, sizeof config);
 *     config.batch = 16, config.length = 32;
 *     gpur_replay_sample_sequences(replay, &config, NULL, &batch);
 *     gpur_batch_read(batch, "obs", obs, sizeof obs);   // (16, 32, ...)
 *     gpur_batch_read(batch, "is_first", is_first, sizeof is_first);
 *
 * examples/sequences.c trains a recurrent model with them, by priority.
 */
#ifndef GPUREPLAY_SEQUENCES_H
#define GPUREPLAY_SEQUENCES_H

#include "gpureplay/batch.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Which sequences gpur_replay_sample_sequences finds. gpur_sequence_config_init sets the defaults. */
typedef struct gpur_sequence_config {
    uint64_t size;           /* sizeof(gpur_sequence_config), as the caller was compiled */
    int64_t batch;           /* sequences, 1 or more; has no default and must be set */
    int64_t length;          /* rows of a sequence at most, 1 or more; has no default and must be set. batch x length is
                                at most the replay's max_batch */
    int64_t min_length;      /* a sequence of fewer rows is drawn again; 1 to length. 0, the default: length */
    int32_t across_episodes; /* 1, the default: sequences go on from one episode of the environment to the next. 0: they
                                begin at the first row of an episode at the earliest */
    const int64_t *last_ids; /* (batch) host memory, read before the call returns: the ids of the last rows. NULL, the
                                default: they are drawn as gpur_replay_sample draws rows, by the replay's index_source
                                (GPUR_UNIFORM_DISTINCT counts as GPUR_UNIFORM) */
} gpur_sequence_config;

/* Sets every member to its default; batch and length must then be set. `size` is sizeof(gpur_sequence_config). Any
 * thread. GPUR_INVALID_ARGUMENT: NULL, or a size below 8 or above 65,536. */
GPUR_API gpur_status gpur_sequence_config_init(gpur_sequence_config *config, uint64_t size);

/*
 * Samples sequences and gathers their rows into a batch of batch x length transitions. Each of its arrays (see
 * gpur_batch) has the shape (batch, length, ...): the rows of a sequence, the oldest first. If fewer than `length` rows
 * were found they are at the front, and zeros with id -1 and weight 0 behind them. The batch has two arrays more:
 *
 *   "mask"      (batch, length) bool  1 if there is a row
 *   "is_first"  (batch, length) bool  1 if there is a row and it is the first of its episode: what a recurrent network
 *                                     remembers must be reset before it
 *
 * Every row of the window that has min_length - 1 predecessors or more is equally likely to be the last row of a
 * sequence, or likely in proportion to priority^alpha. So with min_length = length all blocks of successive rows are
 * equally likely. Where 64 draws find no such row the sequence is missing: its mask is 0 throughout. So is a sequence
 * of last_ids with too few predecessors.
 *
 * "weight" is 1 or, by priority, the importance weight (N P(i))^-beta of the last row i for all rows of its sequence,
 * normalized as in gpur_replay_sample. P does not account for rows that are refused for their predecessors, which
 * changes all weights by one factor. To learn priorities of sequences, call gpur_replay_update_priorities with the ids
 * of the last rows.
 *
 * With the replay's n_step = n above 1, successive rows begin at successive steps, and each spans n.
 *
 *   config  read before the call returns
 *   stream  as in gpur_replay_sample
 *   batch   as in gpur_replay_sample
 *
 * Counts as one call of gpur_replay_sample, or with last_ids of gpur_replay_gather, in random numbers, in the schedule
 * of beta, and in what it waits for. The same seed, contents and order of calls give the same ids on the CPU and on a
 * GPU. Any thread.
 *
 *   GPUR_INVALID_ARGUMENT  a value out of its range, a schema without `previous`, a last id that is not visible yet, a
 *                          stream that gpur_replay_sample refuses, or NULL
 *   GPUR_EVICTED           one of last_ids was overwritten
 *   GPUR_TOO_FEW           the replay is empty; or, without last_ids, fewer than min_size transitions have become
 *                          visible so far
 *   GPUR_OUT_OF_MEMORY     as in gpur_replay_sample
 */
GPUR_API gpur_status gpur_replay_sample_sequences(gpur_replay *replay, const gpur_sequence_config *config, void *stream,
                                                  gpur_batch **batch);

/*
 * Samples sequences into the memory of an existing batch of batch x length transitions, as gpur_replay_sample_into
 * does, and with its refusals and those of gpur_replay_sample_sequences. Any thread.
 *
 *     gpur_replay_sample_sequences(replay, &sequence_config, NULL, &batch);
 *     for (int step = 0; step < 1000; step++) {
 *         gpur_batch_read(batch, "obs", obs, sizeof obs);
 *         gpur_replay_sample_sequences_into(replay, &sequence_config, NULL, batch);
 *     }
 *     gpur_batch_release(batch);
 */
GPUR_API gpur_status gpur_replay_sample_sequences_into(gpur_replay *replay, const gpur_sequence_config *config,
                                                       void *stream, gpur_batch *batch);

/*
 * Returns the length of the sequences in a batch, rows that were not found included; 0 if the batch is not of
 * sequences. NULL gives 0. Any thread.
 *
 *     const int64_t sequences = gpur_batch_count(batch) / gpur_batch_length(batch);
 */
GPUR_API int64_t gpur_batch_length(const gpur_batch *batch);

#ifdef __cplusplus
}
#endif
#endif
