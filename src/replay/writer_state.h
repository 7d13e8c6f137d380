/* SPDX-License-Identifier: MIT */
/*
 * What writers keep between their calls, for checkpoints: the writers that there are, in the order in which they were
 * made, and the states of a loaded file that wait for writers to come. Under the intake's lock, and frozen or inside.
 */
#ifndef GPUR_REPLAY_WRITER_STATE_H
#define GPUR_REPLAY_WRITER_STATE_H

#include "gpureplay/writer.h"
#include "replay/sections.h"

typedef struct gpur_writer_state {
    struct gpur_writer_state *next;
    int32_t num_envs;
    size_t bytes;          /* of the memory, (num_envs, ...) of one array after the other */
    unsigned char *memory; /* behind this struct */
} gpur_writer_state;

/* Adds a new writer to its replay's; it takes the state that waits longest if that has as many environments. */
void gpur_writer_join(gpur_writer *writer);
void gpur_writer_part(gpur_writer *writer);

/* One section an array of every writer; `writers` is how many there are. */
gpur_status gpur_writers_add_sections(gpur_replay *replay, gpur_sections *sections, int64_t *writers);

/*
 * The same for the writers of a file, to be filled in memory of their own, a list that gpur_writer_states_free takes.
 * Refuses a writer of the file that has not the environments of the one that is here.
 */
gpur_status gpur_writer_states_add_sections(gpur_replay *replay, const gpur_tensors *file, int64_t writers,
                                            gpur_sections *sections, gpur_writer_state **states);
void gpur_writer_states_free(gpur_replay *replay, gpur_writer_state *states);

/* Refuses states that no writer comes to. */
gpur_status gpur_writer_states_check(const gpur_replay *replay, const gpur_writer_state *states);

/* The frames that were stored are no longer where they were: writers store theirs again, and what waits for writers,
 * who could not, is dropped. Does nothing for a packed replay. */
void gpur_writers_forget_frames(gpur_replay *replay);

/* Gives the states to the writers, what is left to those that come, and takes all else from both. */
void gpur_writer_states_take(gpur_replay *replay, gpur_writer_state *states);

#endif
