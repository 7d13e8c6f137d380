/* SPDX-License-Identifier: MIT */
/* The launches that make one draw: the rows, and from their links the frames, as they are or as a first layer reads
 * them. */
#ifndef GPUR_REPLAY_DRAWING_H
#define GPUR_REPLAY_DRAWING_H

#include "kernels/kernels.h"

typedef struct gpur_drawing {
    gpur_gather_args rows;
    gpur_gather_observed_args frames; /* frames.batch 0: none are wanted, or the replay is packed */
    int32_t is_observed;              /* 0: as they are, and of `frames` only gather_frames's part is filled in */
} gpur_drawing;

#endif
