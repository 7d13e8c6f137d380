/* SPDX-License-Identifier: MIT */
/* Argument structs of the kernels that rebuild stacks of frames. Axes: B batch, K frames of a stack, S slots of the
 * ring of frames. */
#pragma once

#include "gpureplay/replay.h"
#include "kernels/args_conv.h"

#define GPUR_FRAMES_KERNEL_LIST(X)                                                                                     \
    X(gather_frames)                                                                                                   \
    X(gather_preprocessed)

/* Links of a row, at most: 2 K. A kernel has a bit of a 32-bit word for each. */
enum { GPUR_MAX_FRAME_LINKS = 2 * GPUR_MAX_STACK };

/*
 * Rebuilds the stacks of B rows from their frames. A row has K links for obs, then K for next_obs, the oldest frame
 * first. A link is 1 + the slot of a frame. Link 0 means "no frame" and gives zeros; so does a link beyond the slots,
 * which a forged file may hold. A frame that a row links to several times is read from memory once.
 *
 * A frame is copied in units of 1, 2, 4, 8 or 16 bytes; where the stack is the last axis, a unit is one number. Unit
 * u of the frame at position p of a stack goes to byte u * unit_step + p * position_step of that stack.
 */
typedef struct gpur_gather_frames_args {
    const unsigned char *frames; /* (S) frames, `pitch` bytes apart; a multiple of 16 */
    const uint32_t *links;       /* (B, 2 K) */
    unsigned char *obs;          /* (B) out: stacks, `obs_pitch` bytes apart; NULL: not wanted */
    unsigned char *next_obs;     /* (B) out: stacks, `next_pitch` bytes apart; NULL: not wanted */
    int64_t pitch, frame_bytes;
    int64_t obs_pitch, next_pitch;
    int64_t batch;
    int64_t unit_step, position_step;
    int32_t stack;       /* K */
    int32_t units;       /* in a frame */
    int32_t shift;       /* a unit is 1 << shift bytes */
    int32_t bands;       /* shares of a frame; a GPU's block copies one share of one row at a time */
    int32_t nontemporal; /* 1: a CPU uses non-temporal stores */
    uint32_t slots;      /* S, less than 2^32 - 1 */
} gpur_gather_frames_args;

/* gather_frames followed by the preprocessing of the 2 B stacks (kernels/conv/preprocess.h) as one kernel: it reads
 * the frames and writes the first layer's input, and no stack is stored in between. The result equals that of the two
 * kernels bit for bit. */
typedef struct gpur_gather_preprocessed_args {
    /* A unit is one number, whichever axis the stack is: shift is 0 (uint8) or 2 (float32). obs and next_obs
     * receive rows of x; their pitches are multiples of the size of x's numbers. The stores are never
     * non-temporal. */
    gpur_gather_frames_args frames;
    gpur_preprocess_args preprocess; /* obs, x, count and both pitches are not read */
    int32_t is_plane;                /* 1: each frame is exactly one channel of an image */
} gpur_gather_preprocessed_args;
