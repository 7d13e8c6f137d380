/* SPDX-License-Identifier: MIT */
/* Argument structs of the kernels that rebuild stacks of frames. Axes: B batch, K frames of a stack, S slots of the
 * ring of frames. */
#pragma once

#include "gpureplay/replay.h"
#include "kernels/args_conv.h"

#define GPUR_FRAMES_KERNEL_LIST(X)                                                                                     \
    X(gather_frames)                                                                                                   \
    X(gather_preprocessed)                                                                                             \
    X(rebuild_frames)

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

/* How a packed frame lies in memory. */
enum {
    GPUR_PACKED_RAW,   /* as it is, padded with zeros to a multiple of 8 bytes */
    GPUR_PACKED_BITS,  /* a bit for each byte, all of which are 0 or 1; the lowest bit of a byte first */
    GPUR_PACKED_CODES, /* kernels/lib/frame_codes.h */
    GPUR_PACKED_KINDS,
};

enum { GPUR_PACKED_UNIT = 8 }; /* places are in units of so many bytes; a frame may be read that far beyond its end */

/* Where a packed frame lies in the ring of bytes. */
typedef struct gpur_packed_frame {
    uint32_t place; /* in units of GPUR_PACKED_UNIT bytes */
    uint32_t length;
    uint32_t kind;
    uint32_t key; /* 1 + the slot of the key frame that it is rebuilt with, which has no key itself; 0: it has none */
} gpur_packed_frame;

/*
 * Rebuilds the packed frames of B rows with L links each, so that gather_frames can make stacks of them. A frame that a
 * row links to several times is rebuilt once. A link to no frame, or beyond the slots, stays one to no frame. A frame
 * whose packed bytes cannot be right becomes zeros; nothing outside of the arrays is read or written for it.
 *
 * Rebuilt frame j of row b is at (b (L + 1) + j) pitch, with 3 strides of memory before it, and has padded bytes. The
 * last place of a row is for a key frame, on a CPU.
 */
typedef struct gpur_rebuild_frames_args {
    const unsigned char *ring;       /* (ring_bytes), aligned to 8 bytes */
    const gpur_packed_frame *packed; /* (S) */
    const uint32_t *links;           /* (B, L): 1 + slot */
    unsigned char *frames;           /* (B, L + 1) out: frames, `pitch` bytes apart; a multiple of 8 */
    uint32_t *rebuilt;               /* (B, L) out: 1 + j of a rebuilt frame, counted through all rows, or 0 */
    int64_t ring_bytes, pitch;
    int64_t padded_bytes; /* of a frame; a multiple of 8 */
    int64_t batch;
    int32_t count;  /* L, at most GPUR_MAX_FRAME_LINKS */
    int32_t stride; /* gpur_code_stride of a frame's lines */
    uint32_t slots; /* S, less than 2^32 - 1 */
} gpur_rebuild_frames_args;
