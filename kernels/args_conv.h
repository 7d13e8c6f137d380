/* SPDX-License-Identifier: MIT */
/* Kernels of convolutional networks. Axes: N images, H x W pixels, C channels; H' x W' pixels of what a convolution
 * makes, F filters, K side of the kernel. Images are (N, H, W, C). */
#ifndef GPUR_ARGS_CONV_H
#define GPUR_ARGS_CONV_H

#include <stdint.h>

#define GPUR_CONV_KERNEL_LIST(X)                                                                                       \
    X(observe)                                                                                                         \
    X(unfold)                                                                                                          \
    X(fold_back)                                                                                                       \
    X(channel_backward)                                                                                                \
    X(round_bf16)                                                                                                      \
    X(widen_bf16)

/*
 * Observations as the replay keeps them to what the first layer reads: x = obs * scale, pixels last to first in memory
 * as C, W, H. With `block` b > 1 the b x b pixels of a block become one pixel of b b C channels (row, column, channel
 * of the block), so that a convolution of kernel 2 b and stride b becomes one of kernel 2 and stride 1. An observation
 * that is no image is (1, features, 1).
 */
typedef struct gpur_observe_args {
    const void *obs;   /* (N) uint8 or float32 images, `obs_pitch` bytes apart */
    void *x;           /* (N) float32 or bfloat16 images, `x_pitch` numbers apart */
    int64_t count;     /* N */
    int64_t obs_pitch, x_pitch;
    int64_t height, width, channels; /* of obs; multiples of `block` */
    int32_t floats;    /* 1: obs is float32; 0: uint8 */
    int32_t planes;    /* 1: obs is (C, H, W); 0: (H, W, C) */
    int32_t block;     /* 1: as it is */
    int32_t bf16;      /* 1: x is bfloat16; 0: float32 */
    float scale;
} gpur_observe_args;

/* Where a convolution's kernel stands: shared by both ways between an image and its patches. */
typedef struct gpur_patches {
    int64_t images, height, width, channels; /* N, H, W, C */
    int64_t out_height, out_width;           /* H', W' */
    int64_t kernel, stride, padding;
} gpur_patches;

/* Row (n, y, x) of `patch` is what the kernel sees there, zeros in the padding. */
typedef struct gpur_unfold_args {
    gpur_patches at;
    const void *x; /* (N, H, W, C) float32, or bfloat16 */
    float *patch;  /* (N H' W', K K C) out */
    int32_t bf16;
} gpur_unfold_args;

/* Each number of the image gets the sum of the patches' numbers that were taken from it, in a fixed order. */
typedef struct gpur_fold_back_args {
    gpur_patches at;
    const float *patch; /* (N H' W', K K C) */
    float *x;           /* (N, H, W, C) out */
} gpur_fold_back_args;

/* Rows whose sum is one number of `partial`, whatever the launch shape. */
enum { GPUR_CHANNEL_ROWS = 128 };

/* As gpur_layer_backward_args where there are many rows of few features, the pixels of all images: dy *=
 * activation'(y), and the sums of dy over each run of GPUR_CHANNEL_ROWS rows. */
typedef struct gpur_channel_backward_args {
    float *dy;      /* (rows, F) */
    const float *y; /* (rows, F); not read when linear */
    float *partial; /* (ceil(rows / GPUR_CHANNEL_ROWS), F) out */
    int64_t rows, features;
    int32_t activation;
} gpur_channel_backward_args;

typedef struct gpur_round_bf16_args {
    const float *from; /* (n) */
    uint16_t *to;      /* (n) bfloat16, rounded to nearest, ties to even */
    int64_t count;     /* n */
} gpur_round_bf16_args;

/* The other way, exact; with a bias, activation(x + bias). */
typedef struct gpur_widen_bf16_args {
    const uint16_t *from; /* (n) bfloat16, n a multiple of F */
    float *to;            /* (n) */
    const float *bias;    /* (F), added to each run of F; NULL: none, and no activation */
    int64_t count;        /* n */
    int64_t features;     /* F */
    int32_t activation;
} gpur_widen_bf16_args;

#endif
