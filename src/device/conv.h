/* SPDX-License-Identifier: MIT */
/*
 * Convolutions and their gradients, by the library of the device: cuDNN on CUDA, oneDNN on the CPU. Where the library
 * is missing or cannot do it, as im2col (kernels/conv/im2col.h) and matrix products of gemm.h, on either device. A plan
 * is made once and run many times.
 *
 * Axes: N images, H x W pixels of C channels in, H' x W' pixels of F filters out, K the side of the kernel. All arrays
 * are contiguous: x (N, H, W, C), w (F, K, K, C), y (N, H', W', F), bias (F).
 */
#ifndef GPUR_DEVICE_CONV_H
#define GPUR_DEVICE_CONV_H

#include "device/device.h"
#include "device/gemm.h"

typedef struct gpur_conv gpur_conv;

/* Passes. */
enum {
    GPUR_CONV_FORWARD = 0,   /* y = x * w, and the epilogue */
    GPUR_CONV_TO_INPUT = 1,  /* dx from dy and w */
    GPUR_CONV_TO_WEIGHT = 2, /* dw from x and dy */
};

typedef struct gpur_conv_shape {
    int32_t pass;   /* GPUR_CONV_* */
    int64_t images; /* N, at most: a forward run may ask for fewer */
    int64_t height, width, channels, filters;
    int64_t kernel, stride, padding;
    int32_t epilogue;      /* GPUR_EPILOGUE_*; NONE but forward */
    int32_t math;          /* GPUR_MATH_* */
    int32_t x_bf16;        /* 1: x is bfloat16; not to input */
    int32_t deterministic; /* 1: only ways that repeat their bits */
    int32_t by_patches;    /* 1: by patches whatever library there is */
} gpur_conv_shape;

/* Where the arrays lie; what a pass makes is written, and what it does not read may be NULL. */
typedef struct gpur_conv_arrays {
    void *x; /* float32, or bfloat16 as the shape says; dx is float32 */
    float *w, *y;
    const float *bias;
} gpur_conv_arrays;

static inline int64_t gpur_conv_out(int64_t size, int64_t kernel, int64_t stride, int64_t padding)
{
    return (size + 2 * padding - kernel) / stride + 1;
}

/* GPUR_UNAVAILABLE when this device has no such epilogue: make the plan with NONE and launch a kernel after it. NONE is
 * always there, where matrix products are. `workspace` is shared by the plans of one stream: ask its size first. */
gpur_status gpur_conv_create(gpur_device *device, const gpur_conv_shape *shape, gpur_conv **conv);
void gpur_conv_destroy(gpur_conv *conv);
int64_t gpur_conv_workspace_bytes(const gpur_conv *conv);

/* Enqueues it for the first `images` images; all of them but forward. Forward, more may be computed: the memory is
 * there. `workspace` has as many bytes as gpur_conv_workspace_bytes says, aligned to 256. */
gpur_status gpur_conv_run(gpur_conv *conv, gpur_stream *stream, int64_t images, const gpur_conv_arrays *arrays,
                          void *workspace);

/* Which way a plan goes: "oneDNN 2.6.0", "cuDNN 9.19.0", "patches". */
const char *gpur_conv_way(const gpur_conv *conv);

#endif
