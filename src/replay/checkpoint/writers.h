/* SPDX-License-Identifier: MIT */
/*
 * What writers keep between their calls, for checkpoints: the writers that there are, in the order in which they were
 * made, and the states of a loaded file that wait for writers to come. Under the intake's lock, and frozen or inside.
 */
#ifndef GPUR_REPLAY_CHECKPOINT_WRITERS_H
#define GPUR_REPLAY_CHECKPOINT_WRITERS_H

#include "gpureplay/writer.h"
#include "file/checkpoint_file.h"

enum { GPUR_WRITER_WAY = 64 };

typedef struct gpur_writer_state {
    struct gpur_writer_state *next;
    int32_t num_envs;
    char way[GPUR_WRITER_WAY]; /* in which the writer takes its steps, in words: what its state means goes by it */
    size_t bytes;          /* of the memory, (num_envs, ...) of one array after the other */
    unsigned char *memory; /* behind this struct */
} gpur_writer_state;

/* Adds a new writer to its replay's; it takes the state that waits longest if that has as many environments, and is of
 * a writer that takes its steps the same way. */
void gpur_writer_join(gpur_writer *writer);
void gpur_writer_part(gpur_writer *writer);

/* One note of every writer, and one section of each of its arrays; `writers` is how many there are. */
gpur_status gpur_writers_add_sections(gpur_replay *replay, gpur_tensors *tensors, gpur_sections *sections,
                                      int64_t *writers);

/*
 * The same for the writers of a file, to be filled in memory of their own, a list that gpur_writer_states_free takes.
 * Refuses a writer of the file that has not the environments, or not the way, of the one that is here.
 */
gpur_status gpur_writer_states_add_sections(gpur_replay *replay, const gpur_tensors *file, int64_t writers,
                                            gpur_sections *sections, gpur_writer_state **states);
void gpur_writer_states_free(gpur_replay *replay, gpur_writer_state *states);

/* A state's array by its name; NULL: this replay's writers have no such array. */
const unsigned char *gpur_writer_state_array(const gpur_replay *replay, const gpur_writer_state *state,
                                             const char *name);

/* Refuses states that no writer comes to, in a replay whose next row has id `next`, and its next frame `frame_head`. */
gpur_status gpur_writer_states_check(const gpur_replay *replay, const gpur_writer_state *states, int64_t next,
                                     int64_t frame_head);

/* The frames that were stored are no longer where they were: writers store theirs again, and what waits for writers,
 * who could not, is dropped. Does nothing for a packed replay. */
void gpur_writers_forget_frames(gpur_replay *replay);

/* Gives the states to the writers, what is left to those that come, and takes all else from both. */
void gpur_writer_states_take(gpur_replay *replay, gpur_writer_state *states);

#endif
