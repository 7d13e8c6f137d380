/* SPDX-License-Identifier: MIT */
/* Emits transitions: claims rows of staging blocks and writes them from a writer's state. All functions require the
 * ingest lock. */
#ifndef GPUR_REPLAY_WRITER_N_STEP_H
#define GPUR_REPLAY_WRITER_N_STEP_H

#include "replay/writer/env_state.h"
#include "replay/writer/writer.h"

/* Emits a known number of rows, between gpur_maker_begin and gpur_maker_end. */
typedef struct gpur_maker {
    gpur_writer *writer;
    int64_t left; /* rows still to be claimed */
    int waits;    /* 1: wait for staging blocks */
    int64_t used; /* rows of the claim that have been handed to the caller */
    gpur_claim claim; /* its block is NULL if the rows are committed already */
} gpur_maker;

/* The flags of the last step, shared by all transitions that it completes. The observation after that step is the
 * environment's current one. */
typedef struct gpur_ending {
    uint8_t terminated, truncated;
} gpur_ending;

/* Under GPUR_WHEN_FULL_ERROR: GPUR_WOULD_BLOCK if `rows` rows do not fit now; otherwise they can be emitted without
 * waiting. `what` names in the message what needs the rows. */
gpur_status gpur_maker_check_room(gpur_writer *writer, int64_t rows, const char *what);

/* Begins to emit exactly `rows` rows. */
gpur_maker gpur_maker_begin(gpur_writer *writer, int64_t rows, int waits);

/* Emits the transitions that begin at the `due` oldest pending steps of an environment and end with its last step. */
gpur_status gpur_maker_make(gpur_maker *maker, int64_t env, int32_t due, const gpur_ending *ending);

/* Gets the memory and the id of the next row. */
gpur_status gpur_maker_next(gpur_maker *maker, unsigned char **row, int64_t *id);

gpur_status gpur_maker_end(gpur_maker *maker);

/* Writes a field, if rows have it (`place` is not -1). Inlined, so that the length is known and the copy is a single
 * move. */
static inline void gpur_put(unsigned char *row, int64_t place, const void *value, size_t bytes)
{
    if (place >= 0)
        memcpy(row + place, value, bytes);
}

/* Writes a row's reward, terminated, truncated and discount, and `previous`, the id of the transition before. */
static inline void gpur_put_outcome(const gpur_row_places *at, unsigned char *row, gpur_fold fold,
                                    const gpur_ending *ending, int64_t previous)
{
    const float discount = ending->terminated ? 0.0f : fold.discount;
    gpur_put(row, at->reward, &fold.reward, sizeof fold.reward);
    gpur_put(row, at->terminated, &ending->terminated, 1);
    gpur_put(row, at->truncated, &ending->truncated, 1);
    gpur_put(row, at->discount, &discount, sizeof discount);
    gpur_put(row, at->previous, &previous, sizeof previous);
}

#endif
