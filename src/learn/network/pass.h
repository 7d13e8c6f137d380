/* SPDX-License-Identifier: MIT */
/* One batch of rows forward through a network, and the gradient back. Plans and sheets are made once, for so many rows.
 */
#ifndef GPUR_LEARN_NETWORK_PASS_H
#define GPUR_LEARN_NETWORK_PASS_H

#include "device/conv.h"
#include "device/gemm.h"
#include "base/arena.h"
#include "learn/network/network.h"

/* How it is to be computed. */
typedef struct gpur_pass_options {
    int32_t math;          /* GPUR_MATH_* */
    int32_t fuse;          /* 0 keeps epilogues out where the device has them */
    int32_t deterministic; /* 1: only convolutions that repeat their bits */
    int32_t input_bf16;    /* 1: sheet 0 is bfloat16; before convolutions only */
    int32_t by_patches;    /* 1: convolutions by patches whatever library there is */
    int32_t dense_graphs;  /* 1: dense layers by graphs where the device has them */
} gpur_pass_options;

/* Forward. Sheets are (rows, width), their rows `pitch` floats apart. */
typedef struct gpur_pass {
    gpur_device *device;
    const gpur_network *network;
    gpur_pass_options options;
    int64_t rows;
    float *sheet[GPUR_MAX_SHEETS]; /* 0 is the caller's to place */
    int64_t pitch[GPUR_MAX_SHEETS];
    gpur_gemm *product[GPUR_MAX_DENSE];
    int32_t epilogue[GPUR_MAX_DENSE]; /* GPUR_EPILOGUE_*: what rides in the product */
    gpur_conv *conv[GPUR_MAX_LAYERS];
    int32_t conv_epilogue[GPUR_MAX_LAYERS];
} gpur_pass;

/* Backward, over the first `rows` rows of a pass. */
typedef struct gpur_backward {
    const gpur_pass *pass;
    int64_t rows;
    float *sheet[GPUR_MAX_SHEETS]; /* gradients: as the pass's, but for sheet 0, which has none */
    gpur_gemm *to_weight[GPUR_MAX_DENSE];
    gpur_gemm *to_input[GPUR_MAX_DENSE]; /* NULL where the inputs are observations */
    gpur_conv *conv_to_weight[GPUR_MAX_LAYERS];
    gpur_conv *conv_to_input[GPUR_MAX_LAYERS]; /* likewise */
    float *partial;                            /* sums of runs of pixels: see gpur_channel_backward_args */
} gpur_backward;

/* Floats from row to row of a sheet: whole 16-byte loads. */
static inline int64_t gpur_sheet_pitch(int64_t width)
{
    return (width + 3) / 4 * 4;
}

/* The layers right below the head stay float32: they are small, their values are compared with each other, and their
 * columns of a sheet need not be aligned as tensor cores want. */
static inline int32_t gpur_dense_math(const gpur_dense *dense, int32_t math)
{
    return dense->bias < 0 ? GPUR_MATH_FP32 : math;
}

/* The arithmetic of a layer's products, and the library for them. Layers with a bias of their own read and write whole
 * sheets and blocks of weights, which begin at multiples of 16 bytes. */
static inline void gpur_dense_arithmetic(const gpur_dense *dense, const gpur_pass_options *options,
                                         gpur_gemm_shape *shape)
{
    shape->math = gpur_dense_math(dense, options->math);
    shape->by_graph = options->dense_graphs;
    shape->aligned = dense->bias >= 0;
}

/* Floats from row to row of sheet 0 that suit its first layer: images have nothing between them. */
static inline int64_t gpur_input_pitch(const gpur_network *network)
{
    return network->conv_count ? network->width[0] : gpur_sheet_pitch(network->width[0]);
}

/* Makes the products and convolutions. `input_pitch` is that of sheet 0, its width before a convolution. A failure
 * leaves what gpur_pass_close takes. */
gpur_status gpur_pass_open(gpur_pass *pass, gpur_device *device, const gpur_network *network, int64_t rows,
                           int64_t input_pitch, const gpur_pass_options *options);
void gpur_pass_close(gpur_pass *pass);
void gpur_pass_place(gpur_pass *pass, gpur_arena *arena); /* every sheet but 0 */
int64_t gpur_pass_workspace(const gpur_pass *pass);

/* Sheet 0 to the last sheet, of which the head's bias is not yet part. `weights` are laid out as network->params. */
gpur_status gpur_pass_forward(const gpur_pass *pass, gpur_stream *stream, int64_t rows, const float *weights,
                              void *workspace);

gpur_status gpur_backward_open(gpur_backward *backward, const gpur_pass *pass, int64_t rows);
void gpur_backward_close(gpur_backward *backward);
void gpur_backward_place(gpur_backward *backward, gpur_arena *arena);
int64_t gpur_backward_workspace(const gpur_backward *backward);

/* From the gradient in the last sheet to the gradient of every weight. Overwrites the gradient sheets. */
gpur_status gpur_backward_run(const gpur_backward *backward, gpur_stream *stream, const float *weights, float *gradient,
                              void *workspace);

/* The convolutions of a pass, which come before its dense layers, and of the way back. */

/* Each as the function of pass.h that calls it; all do nothing for a network without convolutions. */
gpur_status gpur_conv_pass_open(gpur_pass *pass);
void gpur_conv_pass_close(gpur_pass *pass);
int64_t gpur_conv_pass_workspace(const gpur_pass *pass);
gpur_status gpur_conv_pass_forward(const gpur_pass *pass, gpur_stream *stream, int64_t rows, const float *weights,
                                   void *workspace);

gpur_status gpur_conv_backward_open(gpur_backward *backward);
void gpur_conv_backward_close(gpur_backward *backward);
void gpur_conv_backward_place(gpur_backward *backward, gpur_arena *arena);
int64_t gpur_conv_backward_workspace(const gpur_backward *backward);
gpur_status gpur_conv_backward_run(const gpur_backward *backward, gpur_stream *stream, const float *weights,
                                   float *gradient, void *workspace);

/* What all plans of one convolution share. */
gpur_conv_shape gpur_conv_shape_of(const gpur_pass *pass, int32_t i, int32_t direction, int64_t rows);

#endif
