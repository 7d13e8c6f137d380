/* SPDX-License-Identifier: MIT */
/* Makes rows of what a writer has kept: claims their places and writes them, with the intake's lock held. */
#ifndef GPUR_REPLAY_WRITER_N_STEP_H
#define GPUR_REPLAY_WRITER_N_STEP_H

#include "replay/writer/env_state.h"
#include "replay/writer/writer.h"

/* Under way from gpur_maker_begin to gpur_maker_end. */
typedef struct gpur_maker {
    gpur_writer *writer;
    int64_t left; /* rows still to be claimed */
    int waits;    /* for a block in use */
    int64_t used; /* of the claim's rows */
    gpur_claim claim; /* without a block: committed as it was made */
} gpur_maker;

/* How the transitions of one environment end that are completed together. The observation after their last step is the
 * writer's newest. */
typedef struct gpur_ending {
    uint8_t terminated, truncated;
} gpur_ending;

/* GPUR_WOULD_BLOCK when `rows` do not fit now, under GPUR_WHEN_FULL_ERROR. What fits can then be made without waiting.
 * `what` needs them, for the message. */
gpur_status gpur_maker_check_room(gpur_writer *writer, int64_t rows, const char *what);

/* For exactly `rows` rows. */
gpur_maker gpur_maker_begin(gpur_writer *writer, int64_t rows, int waits);

/* The `due` oldest pending steps of an environment each begin a transition, which reaches to its last step. */
gpur_status gpur_maker_make(gpur_maker *maker, int64_t env, int32_t due, const gpur_ending *ending);

/* The place of one more row, and its id. */
gpur_status gpur_maker_next(gpur_maker *maker, unsigned char **row, int64_t *id);

gpur_status gpur_maker_end(gpur_maker *maker);

/* A field of so many bytes, if there is one. Inlined: a copy of known length is a move. */
static inline void gpur_put(unsigned char *row, int64_t place, const void *value, size_t bytes)
{
    if (place >= 0)
        memcpy(row + place, value, bytes);
}

/* What a row has beside its observations and what is kept of its first step; `previous` is an id. */
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
