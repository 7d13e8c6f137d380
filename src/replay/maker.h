/* SPDX-License-Identifier: MIT */
/* Makes rows of what a writer has kept: claims their places and writes them, with the intake's lock held. */
#ifndef GPUR_REPLAY_MAKER_H
#define GPUR_REPLAY_MAKER_H

#include "replay/writer.h"

/* Under way from gpur_maker_begin to gpur_maker_end. */
typedef struct gpur_maker {
    gpur_writer *writer;
    int64_t left; /* rows still to be claimed */
    int waits;    /* for a block in use */
    int64_t used; /* of the claim's rows */
    gpur_claim claim;
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

gpur_status gpur_maker_end(gpur_maker *maker);

#endif
