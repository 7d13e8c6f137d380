/* SPDX-License-Identifier: MIT */
/* Kernels of frames. Axes: B batch, K frames of a stack, S slots of the ring of frames. */
#ifndef GPUR_ARGS_FRAMES_H
#define GPUR_ARGS_FRAMES_H

#include "kernels/args_conv.h"

#include <stdint.h>

#define GPUR_FRAMES_KERNEL_LIST(X)                                                                                     \
    X(gather_frames)                                                                                                   \
    X(gather_observed)

enum { GPUR_MOST_LINKS = 32 }; /* 2 K at most: the stacks' places are bits of a word */

/*
 * Rebuilds the stacks of B rows from their frames: K links of obs, then K of next_obs, the oldest frame first. A link
 * is 1 + the slot of a frame; 0, and what is beyond the slots (a forged file may have it), is no frame: zeros. A frame
 * that a row links to several times is read once.
 *
 * A unit u of a frame goes to byte u x unit_step + p x place_step of a stack, for place p in it: units of 1, 2, 4, 8 or
 * 16 bytes, or, where the stack is the last axis, of one number.
 */
typedef struct gpur_gather_frames_args {
    const unsigned char *frames; /* (S) frames, `pitch` bytes apart, which are multiples of 16 */
    const uint32_t *links;       /* (B, 2 K) */
    unsigned char *obs;          /* (B) stacks, `obs_pitch` bytes apart; NULL: not wanted */
    unsigned char *next_obs;     /* (B) likewise */
    int64_t pitch, frame_bytes;
    int64_t obs_pitch, next_pitch;
    int64_t batch;
    int64_t unit_step, place_step;
    int32_t stack; /* K */
    int32_t units; /* in a frame */
    int32_t shift; /* a unit is 1 << shift bytes */
    int32_t bands; /* parts of a frame that are blocks' work of their own */
    int32_t past;  /* 1: a CPU writes past its caches */
    uint32_t slots; /* S, less than 2^32 - 1 */
} gpur_gather_frames_args;

/*
 * Both kernels in one, gather_frames and then `observe` of the 2 B stacks, with nothing stored between: the frames'
 * bytes are read, and what the first layer reads is written. To the bit the same numbers as the two make.
 */
typedef struct gpur_gather_observed_args {
    /* A unit is one number, whatever the axis of the stack: shift 0 (uint8) or 2 (float32). obs and next_obs are rows
     * of x, multiples of its numbers apart, and both wanted. `past` is not read. */
    gpur_gather_frames_args frames;
    gpur_observe_args observe; /* but obs, x, count, and their pitches */
    int32_t is_plane;          /* 1: a frame is one channel of the images, all of it */
} gpur_gather_observed_args;

#endif
