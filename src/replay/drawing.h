/* SPDX-License-Identifier: MIT */
/* The launches that make one draw: the rows, and from their links the frames. */
#ifndef GPUR_REPLAY_DRAWING_H
#define GPUR_REPLAY_DRAWING_H

#include "kernels/kernels.h"

typedef struct gpur_drawing {
    gpur_gather_args rows;
    gpur_gather_frames_args frames; /* batch 0: none are wanted, or the replay is packed */
} gpur_drawing;

#endif
