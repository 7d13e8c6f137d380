/* SPDX-License-Identifier: MIT */
/* Argument structs of the kernels of convolutional networks. Axes: N images, H x W pixels, C channels; H' x W' output
 * pixels of a convolution, F filters, K side of a filter. Images are stored as (N, H, W, C). */
#pragma once

#include <stdint.h>

#define GPUR_CONV_KERNEL_LIST(X)                                                                                       \
    X(preprocess)                                                                                                      \
    X(im2col)                                                                                                          \
    X(col2im)                                                                                                          \
    X(conv_bias_backward)                                                                                              \
    X(round_bf16)                                                                                                      \
    X(widen_bf16)

/*
 * Preprocessing: converts observations as the replay stores them to the first layer's input, x = obs * scale + shift.
 * Within an image of x the channels of a pixel are contiguous, then come the pixels of a row, then the rows.
 *
 * Space-to-depth, for b > 1: each block of b x b pixels becomes one pixel of b b C channels, ordered by row, column
 * and channel in the block. A convolution of kernel 2 b and stride b then becomes one of kernel 2 and stride 1.
 *
 * An observation that is not an image has height 1, one channel, and its features as the width.
 */
typedef struct gpur_preprocess_args {
    const void *obs; /* (N) uint8 or float32 images, `obs_pitch` bytes apart */
    void *x;         /* (N) out: float32 or bfloat16 images, `x_pitch` numbers apart */
    int64_t count;   /* N */
    int64_t obs_pitch, x_pitch;
    int64_t height, width, channels; /* of obs; height and width are multiples of b */
    int32_t floats;                  /* 1: obs is float32; 0: uint8 */
    int32_t planes;                  /* 1: obs is (C, H, W); 0: (H, W, C) */
    int32_t space_to_depth;          /* b; 1: no space-to-depth */
    int32_t bf16;                    /* 1: x is bfloat16; 0: float32 */
    float scale, shift;              /* a shift of -0 changes no bit of obs * scale */
} gpur_preprocess_args;

/* Geometry of a convolution, for im2col and col2im. */
typedef struct gpur_conv_geometry {
    int64_t images, height, width, channels; /* N, H, W, C */
    int64_t out_height, out_width;           /* H', W' */
    int64_t kernel, stride;
    int64_t top, left; /* rows of zeros above each image, columns of zeros to its left */
} gpur_conv_geometry;

/* im2col: row (n, y, x) of the result holds the K x K x C inputs of output pixel (y, x) of image n; inputs outside
 * the image are 0. */
typedef struct gpur_im2col_args {
    gpur_conv_geometry geometry;
    const void *x; /* (N, H, W, C) float32, or bfloat16 */
    void *columns; /* (N H' W', K K C) out, of the same type */
    int32_t bf16;
} gpur_im2col_args;

/* col2im, the adjoint of im2col: each number of the image becomes the sum of the numbers that im2col would copy it
 * to. The order of the additions is fixed. */
typedef struct gpur_col2im_args {
    gpur_conv_geometry geometry;
    const float *columns; /* (N H' W', K K C) */
    void *x;              /* (N, H, W, C) out, float32, or bfloat16, to which each sum is rounded */
    int32_t bf16;
} gpur_col2im_args;

/* Rows in one partial sum, whatever the launch shape. */
enum { GPUR_CONV_BIAS_ROWS = 128 };

/* Like gpur_layer_backward_args, for many rows of few features: the pixels of all images. dy *= activation'(y); each
 * partial sum adds up dy over a run of GPUR_CONV_BIAS_ROWS rows. The caller adds the partial sums to the bias gradient.
 */
typedef struct gpur_conv_bias_backward_args {
    void *dy;          /* (rows, F), as of gpur_layer_backward_args, as are the types */
    const void *y;     /* (rows, F); not read when linear */
    uint16_t *rounded; /* (rows, F), or NULL */
    float *partial;    /* (ceil(rows / GPUR_CONV_BIAS_ROWS), F) out */
    int64_t rows, features;
    int32_t activation;
    int32_t dy_bf16, y_bf16;
} gpur_conv_bias_backward_args;

/* Converts float32 to bfloat16, rounded to nearest, ties to even. With a bias, it rounds activation(x + bias). */
typedef struct gpur_round_bf16_args {
    const float *from;    /* (n), n a multiple of F */
    uint16_t *to;         /* (n) */
    const uint16_t *bias; /* (F) bfloat16, added to each run of F numbers; NULL: no bias and no activation */
    int64_t count;        /* n */
    int64_t features;     /* F; not read without a bias */
    int32_t activation;
} gpur_round_bf16_args;

/* Converts bfloat16 to float32, which is exact. */
typedef struct gpur_widen_bf16_args {
    const uint16_t *from; /* (n) */
    float *to;            /* (n) */
    int64_t count;        /* n */
} gpur_widen_bf16_args;
