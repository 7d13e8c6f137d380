/* SPDX-License-Identifier: MIT */
/*
 * Forward and backward pass of a batch through a network. Plans and activations are created once, for a maximum number
 * of rows.
 *
 * In a network that computes in bfloat16 (params.bf16), the activations of convolutions and their gradients are
 * bfloat16 numbers, in spite of the type of their addresses here; each is rounded once, from what was computed in
 * float32. What the dense layers compute is float32, but the products of the first read operands in bfloat16. All
 * weights that it and the convolutions read are the copies in bfloat16, and all gradients of weights are float32.
 */
#pragma once

#include "device/conv.h"
#include "device/gemm.h"
#include "base/arena.h"
#include "learn/network/network.h"
#include "learn/network/side.h"

typedef struct gpur_pass_options {
    int32_t math;      /* GPUR_MATH_* */
    int32_t fuse;      /* 1: GEMMs and convolutions add bias and ReLU themselves (epilogue) if the device can */
    int32_t by_im2col; /* 1: convolutions by im2col even if there is a library for them */
} gpur_pass_options;

static inline gpur_pass_options gpur_pass_options_of(int32_t math)
{
    return (gpur_pass_options){.math = math, .fuse = 1};
}

/* Forward pass. Activations are (rows, width), their rows `pitch` floats apart. */
typedef struct gpur_pass {
    gpur_device *device;
    const gpur_network *network;
    gpur_pass_options options;
    int64_t rows;
    float *activations[GPUR_MAX_ACTIVATIONS]; /* [0], the input, is assigned by the caller */
    int64_t pitch[GPUR_MAX_ACTIVATIONS];
    float
        *sums[GPUR_MAX_ACTIVATIONS]; /* of activations that are normalized: the products that they are computed from */
    gpur_gemm *product[GPUR_MAX_DENSE];
    int32_t epilogue[GPUR_MAX_DENSE]; /* GPUR_EPILOGUE_* of the GEMM */
    gpur_conv *conv[GPUR_MAX_LAYERS];
    int32_t conv_epilogue[GPUR_MAX_LAYERS];
    int64_t workspace; /* bytes that the plans need, one after the other */
} gpur_pass;

/* Backward pass, over the first `rows` rows of a forward pass. */
typedef struct gpur_backward {
    const gpur_pass *pass;
    int64_t rows;
    int32_t by_input;                       /* computes the gradient by so many last numbers of the input alone; 0: by
                                               the parameters */
    float *gradients[GPUR_MAX_ACTIVATIONS]; /* gradients, with the shapes of the pass's activations; [0] is NULL
                                               unless by_input */
    uint16_t
        *rounded[GPUR_MAX_ACTIVATIONS];   /* in bfloat16, those of all convolutions' and the first dense layer's, which
                                                their products read; else NULL. The last convolution's and the dense
                                                layer's arrive in `gradients` in float32 */
    gpur_gemm *to_weight[GPUR_MAX_DENSE]; /* NULL if by_input */
    gpur_gemm *to_input[GPUR_MAX_DENSE];  /* NULL if the layer reads the observations, unless by_input */
    gpur_conv *conv_to_weight[GPUR_MAX_LAYERS];
    gpur_conv *conv_to_input[GPUR_MAX_LAYERS]; /* NULL if the layer reads the observations */
    float *by_gain;                            /* gradients by a gain, row by row; of one layer after the other */
    float *partial;                            /* partial sums of a bias gradient: see gpur_conv_bias_backward_args */
    int64_t workspace;                         /* bytes, as of a pass */
} gpur_backward;

/* Floats from row to row of activations: rows are padded to 16 bytes, so that loads of 16 bytes are aligned. */
static inline int64_t gpur_activation_pitch(int64_t width)
{
    return (width + 3) / 4 * 4;
}

/* Floats from row to row of the input that suit the first layer: images have no padding between them. */
static inline int64_t gpur_input_pitch(const gpur_network *network)
{
    return network->conv_count ? network->width[0] : gpur_activation_pitch(network->width[0]);
}

/* The parameter at `offset`, as convolutions and the first dense layer's products read it. */
static inline void *gpur_pass_parameter(const gpur_pass *pass, const float *weights, int64_t offset)
{
    uint16_t *const bf16 = gpur_params_bf16(&pass->network->params, weights);
    return bf16 ? (void *)(bf16 + offset) : (void *)(uintptr_t)(weights + offset);
}

/* The gradient of activations s, as those products read it. */
static inline void *gpur_backward_gradient(const gpur_backward *backward, int32_t s)
{
    return backward->rounded[s] ? (void *)backward->rounded[s] : (void *)backward->gradients[s];
}

/* 1: activations s are bfloat16. */
static inline int gpur_pass_is_bf16(const gpur_pass *pass, int32_t s)
{
    return pass->network->params.bf16 && s <= pass->network->conv_count;
}

/* The epilogue of a layer's product, which adds the bias and applies the activation, if it may have one. */
static inline int32_t gpur_pass_epilogue(int may_have_one, int32_t activation)
{
    return !may_have_one || activation == GPUR_TANH ? GPUR_EPILOGUE_NONE
           : activation == GPUR_RELU                ? GPUR_EPILOGUE_BIAS_RELU
                                                    : GPUR_EPILOGUE_BIAS;
}

/* Creates the plans of GEMMs and convolutions. `input_pitch` is that of the input; it must be the input's width if the
 * first layer is a convolution. After a failure call gpur_pass_close. */
gpur_status gpur_pass_open(gpur_pass *pass, gpur_device *device, const gpur_network *network, int64_t rows,
                           int64_t input_pitch, const gpur_pass_options *options);
void gpur_pass_close(gpur_pass *pass);
void gpur_pass_assign(gpur_pass *pass, gpur_arena *arena); /* all activations except [0] */

/* Computes all activations from [0], for the first `rows` rows. The last ones lack the bias, which the head adds.
 * `weights` are laid out as in network->params. */
gpur_status gpur_pass_forward(const gpur_pass *pass, gpur_stream *stream, int64_t rows, const float *weights,
                              void *workspace);

/* Adds the bias and applies the activation to what a product without an epilogue has computed. */
gpur_status gpur_pass_add_bias(const gpur_pass *pass, gpur_stream *stream, const gpur_bias_activation_args *args);

/* With `by_input` it computes the gradient by so many last numbers of the input, in their columns of gradients[0], in
 * place of those of the parameters, and the network must have no convolutions. */
gpur_status gpur_backward_open(gpur_backward *backward, const gpur_pass *pass, int64_t rows, int32_t by_input);
void gpur_backward_close(gpur_backward *backward);
void gpur_backward_assign(gpur_backward *backward, gpur_arena *arena);

/* Returns the launch shape of layer_backward: a block for every 8 columns, whose threads take many rows at a time. */
gpur_grid gpur_layer_backward_grid(const gpur_device *device, const gpur_layer_backward_args *args);

/* Computes the gradient of every parameter from that of the last activations. Overwrites all activation gradients.
 * Those of weights are computed on the side, which is joined in the end; its workspace is as large as the track's.
 * `gradient` is NULL if by_input. */
gpur_status gpur_backward_run(const gpur_backward *backward, const gpur_track *track, const gpur_side *side,
                              const float *weights, float *gradient);

/* The convolutions, which come before the dense layers. Each function does a part of the function above with the same
 * name without `conv_`, which calls it. All do nothing for a network without convolutions. */
gpur_status gpur_conv_pass_open(gpur_pass *pass);
void gpur_conv_pass_close(gpur_pass *pass);
gpur_status gpur_conv_pass_forward(const gpur_pass *pass, gpur_stream *stream, int64_t rows, const float *weights,
                                   void *workspace);

gpur_status gpur_conv_backward_open(gpur_backward *backward);
void gpur_conv_backward_close(gpur_backward *backward);
void gpur_conv_backward_assign(gpur_backward *backward, gpur_arena *arena);
gpur_status gpur_conv_backward_run(const gpur_backward *backward, const gpur_track *track, const gpur_side *side,
                                   const float *weights, float *gradient);
