/* SPDX-License-Identifier: MIT */
/* The launches that make one draw: the rows, and from their links the frames, as they are or as a first layer reads
 * them. */
#ifndef GPUR_REPLAY_DRAWING_H
#define GPUR_REPLAY_DRAWING_H

#include "replay/copies.h"

/* Launches that copy further fields of the rows that were drawn, between which and the draw no row may leave. */
typedef struct gpur_more_gathers {
    int32_t count;
    gpur_gather_args list[GPUR_COPY_PARTS - 1]; /* (count) */
} gpur_more_gathers;

typedef struct gpur_drawing {
    gpur_gather_args rows;
    gpur_more_gathers more;           /* where the rows have more fields than one launch copies */
    gpur_gather_observed_args frames; /* frames.batch 0: none are wanted, or the replay is packed */
    int32_t is_observed;              /* 0: as they are, and of `frames` only gather_frames's part is filled in */
} gpur_drawing;

#endif
