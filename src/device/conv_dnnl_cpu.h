/* SPDX-License-Identifier: MIT */
/* What the two files of oneDNN's convolutions share: conv_dnnl_make_cpu.c makes plans, conv_dnnl_cpu.c runs them. They
 * alone know oneDNN, version 2: what 3 changed is in the one that makes. */
#ifndef GPUR_DEVICE_CONV_DNNL_CPU_H
#define GPUR_DEVICE_CONV_DNNL_CPU_H

#include "device/cpu.h"

#include <oneapi/dnnl/dnnl.h>

/*
 * A run is cut into pieces of images, which the device's threads convolve beside each other. Forward there are plans of
 * 1, 2, 4, ... images up to a piece, as acting asks for few of many, and one of what is left of all images behind the
 * last whole piece. A gradient's pieces are equal. How many pieces there are depends on the shape and on the device's
 * threads alone; with one thread there is one.
 */
enum { GPUR_DNNL_SIZES = 32, GPUR_DNNL_MOST_PIECES = 256 };

/* What one piece works on. Pieces run at the same time, so each has its own. */
typedef struct gpur_dnnl_piece {
    dnnl_stream_t stream;
    dnnl_memory_t x, y, w, scratch;
} gpur_dnnl_piece;

/* The way for one number of images. */
typedef struct gpur_dnnl_size {
    int64_t images;
    dnnl_primitive_t conv, reorder;    /* reorder: NULL where the weights lie as wanted */
    dnnl_memory_t w_outside, w_inside; /* of the reorder */
    gpur_dnnl_piece *pieces;           /* (piece_count) */
    int64_t piece_count;
} gpur_dnnl_size;

typedef struct gpur_dnnl_conv {
    gpur_conv base;
    atomic_int holders; /* the handle, and each run under way: the plan may go before the work is done */
    dnnl_engine_t engine;
    dnnl_stream_t stream; /* of the reorders */
    dnnl_memory_t bias;
    gpur_dnnl_size sizes[GPUR_DNNL_SIZES]; /* (count), smallest first */
    int count;
    int64_t piece;         /* images of a whole piece */
    int64_t w_floats;      /* of the weights as oneDNN wants them, the most of any size */
    int64_t w_bytes;       /* of a place for them in work memory; 0: none wants one */
    int64_t scratch_bytes; /* of a piece's, the most of any size */
} gpur_dnnl_conv;

/* A failure leaves what gpur_dnnl_unmake takes. Both with one thread to OpenMP. */
gpur_status gpur_dnnl_make(gpur_dnnl_conv *conv);
void gpur_dnnl_unmake(gpur_dnnl_conv *conv);

/* Pieces of a run of so many images: whole ones, and one of what is left. */
static inline int64_t gpur_dnnl_pieces(const gpur_dnnl_conv *conv, int64_t images)
{
    return (images + conv->piece - 1) / conv->piece;
}

/* Of calls that make a plan. "No such way" is GPUR_UNAVAILABLE, which lets the caller go by patches; no memory is
 * GPUR_OUT_OF_MEMORY. */
gpur_status gpur_dnnl_check(dnnl_status_t status, const char *call);
#define GPUR_TRY_DNNL(call) GPUR_TRY(gpur_dnnl_check(call, #call))

#endif
