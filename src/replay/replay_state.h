/* SPDX-License-Identifier: MIT */
/*
 * What a replay's file has but writers: the numbers that make a replay go on as it would have, those that it tells, and
 * the parts of memory that hold rows. What is kept for a row besides is a section more here.
 */
#ifndef GPUR_REPLAY_REPLAY_STATE_H
#define GPUR_REPLAY_REPLAY_STATE_H

#include "replay/replay.h"
#include "replay/sections.h"

/* Counts: 0 or more all of them. */
typedef struct gpur_replay_counts {
    int64_t first_id, rows, writers;
    int64_t draws, drawn, launches; /* random numbers; which blocks wait for a launch */
    int64_t appended, published, evicted, blocks, bytes_fed, episodes_cut;
    int64_t frame_head;              /* GPUR_LINKED: frames stored */
    int64_t updates, stale, invalid; /* of priorities */
} gpur_replay_counts;

typedef struct gpur_replay_state {
    gpur_replay_counts counts;
    float alpha, most; /* of priorities; the largest so far */
    gpur_schedule beta;
    gpur_frame_group *groups; /* (group_count) GPUR_LINKED: which frames the rows link to */
    int64_t group_count;
} gpur_replay_state;

/* Of a frozen replay, all but the writers. `stream` is waited for. A failure leaves what gpur_replay_state_free
 * takes. */
gpur_status gpur_replay_state_look(gpur_replay *replay, gpur_stream *stream, gpur_replay_state *state);
void gpur_replay_state_free(const gpur_replay *replay, gpur_replay_state *state);

/* The scalars of a file, to be written or read; at most GPUR_MAX_SCALARS. Returns how many. */
int32_t gpur_replay_state_scalars(gpur_replay_state *state, gpur_scalar *scalars);

/* A file whose checksums are right may still be somebody's forgery: refuses numbers that no replay has. */
gpur_status gpur_replay_state_check(const gpur_replay_state *state);

/* Memory for the groups of a state that was read. */
gpur_status gpur_replay_state_make_groups(const gpur_replay *replay, gpur_replay_state *state);

/* Rows in the order of their ids, their priorities, frames in the order of their slots. */
gpur_status gpur_replay_state_add_sections(gpur_replay *replay, gpur_replay_state *state, gpur_sections *sections);

/* Once these are filled in: refuses groups that no replay has. */
gpur_status gpur_replay_state_check_groups(const gpur_replay *replay, const gpur_replay_state *state);

/* Once that was checked. Under the intake's lock. */
gpur_status gpur_replay_state_set(gpur_replay *replay, const gpur_replay_state *state);

/* Once they were filled in partly: no rows, and the next ids as before. Under the intake's lock. */
gpur_status gpur_replay_state_empty(gpur_replay *replay);

#endif
