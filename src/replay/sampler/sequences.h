/* SPDX-License-Identifier: MIT */
/* Finds sequences of successive transitions (kernels/args_sequences.h), for learners and for the functions of
 * gpureplay/sequences.h. */
#pragma once

#include "replay/replay.h"

typedef struct gpur_sequences_request {
    int64_t count, length; /* sequences, and rows of each */
    int64_t min_length;    /* a sequence of fewer rows is drawn again; 1 to length */
    int32_t across_episodes;
    int32_t source;   /* how last rows are chosen: GPUR_UNIFORM, GPUR_PRIORITIZED_*; not used with last_ids */
    uint32_t purpose; /* GPUR_RANDOM_* */
    uint64_t seed;
    const uint64_t *step; /* (1) device memory, read when the kernel runs; NULL: step_value */
    uint64_t step_value;
    const int64_t *last_ids; /* (count) device memory, last_pitch numbers apart: the ids of the last rows. NULL: they
                                are drawn */
    int64_t last_pitch;
    int64_t *ids;      /* (count, length) device memory: the oldest row first; -1 behind the last row, and for a missing
                          sequence */
    uint32_t *leaf;    /* (count, length) device memory or NULL: the last row's leaf of the sum tree, for weights */
    uint8_t *mask;     /* (count, length) device memory or NULL: 1 where there is a row */
    uint8_t *is_first; /* (count, length) device memory or NULL: 1 at the first row of an episode */
} gpur_sequences_request;

/* Refuses a replay whose schema has no field `previous`, one int64, but one of lanes, whose rows lie in order. */
gpur_status gpur_sequences_check(const gpur_replay *replay);

/* Enqueues the kernel, between gpur_consumer_begin and gpur_consumer_end, or records it into a graph: it reads the
 * window and `step` when it runs. Work that reads the rows of these ids must be enqueued under the same hold of the
 * window lock. */
gpur_status gpur_sequences_enqueue(gpur_replay *replay, const gpur_sequences_request *request, gpur_stream *stream);
