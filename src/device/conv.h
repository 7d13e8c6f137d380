/* SPDX-License-Identifier: MIT */
/*
 * Convolutions and their gradients, by a library: cuDNN on CUDA, oneDNN on the CPU. If the library is missing or lacks
 * the case, they run as im2col (kernels/conv/im2col.h) and the GEMMs of gemm.h, on either device. A plan is made once
 * and run many times.
 *
 * Axes: N images, input of H x W pixels with C channels, output of H' x W' pixels with F filters, kernels of K x K. All
 * arrays are contiguous: x (N, H, W, C), w (F, K, K, C), y (N, H', W', F), bias (F). They are float32; under
 * GPUR_MATH_BF16 all but dw are bfloat16, to which each number of y and dx is rounded once, after the epilogue.
 */
#pragma once

#include "device/device.h"
#include "device/gemm.h"

typedef struct gpur_conv gpur_conv;

/* Passes. */
enum {
    GPUR_CONV_FORWARD = 0,   /* y = x * w, then the epilogue */
    GPUR_CONV_TO_INPUT = 1,  /* dx from dy and w */
    GPUR_CONV_TO_WEIGHT = 2, /* dw from x and dy */
};

typedef struct gpur_conv_shape {
    int32_t pass;   /* GPUR_CONV_* */
    int64_t images; /* N; a forward run may ask for fewer */
    int64_t height, width, channels, filters;
    int64_t kernel, stride;
    int64_t top, left, bottom, right; /* rows or columns of zeros around the image, 0 to kernel - 1 */
    int32_t epilogue;                 /* GPUR_EPILOGUE_*; NONE unless forward */
    int32_t math;                     /* GPUR_MATH_*; BF16 needs C and F that are multiples of 8 */
    int32_t deterministic;            /* 1: only bitwise reproducible algorithms */
    int32_t by_im2col;                /* 1: im2col, even if there is a library */
} gpur_conv_shape;

/* Addresses of the arrays. x and y also stand for dx and dy, w for dw. A pass writes its result and reads the other
 * two. bias may be NULL without an epilogue. */
typedef struct gpur_conv_arrays {
    void *x, *w, *y;
    const void *bias;
} gpur_conv_arrays;

/* H' */
static inline int64_t gpur_conv_out_height(const gpur_conv_shape *s)
{
    return (s->height + s->top + s->bottom - s->kernel) / s->stride + 1;
}

/* W' */
static inline int64_t gpur_conv_out_width(const gpur_conv_shape *s)
{
    return (s->width + s->left + s->right - s->kernel) / s->stride + 1;
}

/* GPUR_UNAVAILABLE: this device lacks the epilogue; make the plan with NONE and launch a kernel after it. NONE is
 * available wherever GEMMs are. Plans that run on the same stream can share one workspace, of the largest size that any
 * of them needs. */
gpur_status gpur_conv_create(gpur_device *device, const gpur_conv_shape *shape, gpur_conv **conv);
void gpur_conv_destroy(gpur_conv *conv);
int64_t gpur_conv_workspace_bytes(const gpur_conv *conv);

/* Enqueues the convolution of the first `images` images; backward passes need all N. A forward run may compute more
 * images than it was asked for, so the arrays must hold N. `workspace` has gpur_conv_workspace_bytes bytes and is
 * aligned to 256. */
gpur_status gpur_conv_run(gpur_conv *conv, gpur_stream *stream, int64_t images, const gpur_conv_arrays *arrays,
                          void *workspace);

/* Returns what runs the plan: "oneDNN 2.6.0", "cuDNN 9.19.0" or "patches", which is im2col. */
const char *gpur_conv_method(const gpur_conv *conv);
