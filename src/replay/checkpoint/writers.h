/* SPDX-License-Identifier: MIT */
/*
 * The state of writers in checkpoints: of the existing writers, in the order of their creation, and of writers of a
 * loaded file that are still to be created. The functions run during a pause (gpur_consumer_begin_exclusive), or with
 * the window lock between gpur_ingest_begin_call and gpur_ingest_end_call.
 */
#pragma once

#include "gpureplay/writer.h"
#include "file/checkpoint_file.h"

enum { GPUR_WRITER_MODE = 64 };

typedef struct gpur_writer_state {
    struct gpur_writer_state *next;
    int32_t num_envs;
    char mode[GPUR_WRITER_MODE]; /* autoreset and observations as text; a writer that takes the state has the same */
    size_t bytes;                /* size of the memory: one array after the other, each (num_envs, ...) */
    unsigned char *memory;       /* behind this struct, in the same allocation */
} gpur_writer_state;

/* Adds a metadata entry for each writer and a section for each of its arrays. `writers` gets the number of writers,
 * those still to be created included. */
gpur_status gpur_writers_add_sections(gpur_replay *replay, gpur_tensors *tensors, gpur_sections *sections,
                                      int64_t *writers);

/*
 * Adds the sections of a file's writers, to be filled into `states`: a new list, which the caller frees with
 * gpur_writer_states_free.
 */
gpur_status gpur_writer_states_add_sections(gpur_replay *replay, const gpur_tensors *file, int64_t writers,
                                            gpur_sections *sections, gpur_writer_state **states);
void gpur_writer_states_free(gpur_replay *replay, gpur_writer_state *states);

/* Refuses states that no writer can reach in a replay whose next row has id `next` and whose next frame has id
 * `frame_head`. */
gpur_status gpur_writer_states_check(const gpur_replay *replay, const gpur_writer_state *states, int64_t next,
                                     int64_t frame_head);

/* To be called when stored frames have been overwritten: existing writers will store their frames again, and states of
 * writers that are still to be created are dropped. Does nothing with GPUR_LAYOUT_ROWS. */
void gpur_writers_invalidate_frames(gpur_replay *replay);

/* Gives the states to the existing writers in order; the rest wait for new writers. Clears writers that get none, or
 * one of another number of environments, another autoreset or another input, whose open episodes it counts in
 * replay->cut_on_load. Drops states that waited before. Takes ownership of `states`. */
void gpur_writer_states_restore(gpur_replay *replay, gpur_writer_state *states);
