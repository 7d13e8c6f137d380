/* SPDX-License-Identifier: MIT */
/* The graph of a convolution, or of one of its gradients. */
#ifndef GPUR_MODULE_CONV_CUDA_H
#define GPUR_MODULE_CONV_CUDA_H

#include "device/module_graph_cuda.h"

#include <stdio.h>

static inline int64_t greatest_alignment(int64_t bytes)
{
    return bytes % 16 == 0 ? 16 : bytes % 8 == 0 ? 8 : bytes % 4 == 0 ? 4 : 2;
}

/* Four axes as cuDNN names them, N, C, H, W or F, C, K, K, with the second one last in memory. A batch may begin behind
 * another one, so images are as aligned as their size; all else is at the start of a block. */
static inline tensor_kind image_kind(int64_t id, cudnnDataType_t type, int64_t n, int64_t c, int64_t h, int64_t w)
{
    const int64_t size = type == CUDNN_DATA_BFLOAT16 ? 2 : 4;
    const tensor_kind kind = {.id = id,
                              .type = type,
                              .axes = 4,
                              .dims = {n, c, h, w},
                              .strides = {c * h * w, 1, c * w, c},
                              .alignment = id == ID_X ? greatest_alignment(c * h * w * size) : 16};
    return kind;
}

static inline gpur_status make_convolution(gpur_cudadnn_plan *plan, const gpur_conv_shape *s, descriptor *out)
{
    const int64_t two = 2, strides[2] = {s->stride, s->stride}, padding[2] = {s->padding, s->padding};
    const int64_t dilations[2] = {1, 1};
    const cudnnDataType_t type = CUDNN_DATA_FLOAT;
    const cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
    GPUR_TRY(make(plan, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR, out));
    GPUR_TRY(set(plan, *out, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, 1, &two));
    GPUR_TRY(set(plan, *out, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type));
    GPUR_TRY(set(plan, *out, CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode));
    GPUR_TRY(set(plan, *out, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, 2, padding));
    GPUR_TRY(set(plan, *out, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, 2, padding));
    GPUR_TRY(set(plan, *out, CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, 2, dilations));
    GPUR_TRY(set(plan, *out, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, 2, strides));
    return finalize(plan, *out);
}

/* How an operation of each pass names what it is made of. */
typedef struct pass_names {
    cudnnBackendDescriptorType_t kind;
    cudnnBackendAttributeName_t conv, x, w, y, alpha, beta;
} pass_names;

static const pass_names passes[] = {
    [GPUR_CONV_FORWARD] = {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
                           CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
                           CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
                           CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
                           CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA},
    [GPUR_CONV_TO_INPUT] = {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
                            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
                            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
                            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
                            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
                            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA},
    [GPUR_CONV_TO_WEIGHT] = {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
                             CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
                             CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
                             CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
                             CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
                             CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
                             CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA},
};

static inline gpur_status make_conv_operation(gpur_cudadnn_plan *plan, const gpur_conv_shape *s,
                                              const descriptor arrays[3], descriptor *out)
{
    const pass_names *const p = &passes[s->pass];
    const float one = 1.0f, none = 0.0f;
    descriptor conv = NULL;
    GPUR_TRY(make_convolution(plan, s, &conv));
    GPUR_TRY(make(plan, p->kind, out));
    GPUR_TRY(set(plan, *out, p->conv, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &conv));
    GPUR_TRY(set(plan, *out, p->x, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &arrays[0]));
    GPUR_TRY(set(plan, *out, p->w, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &arrays[1]));
    GPUR_TRY(set(plan, *out, p->y, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &arrays[2]));
    GPUR_TRY(set(plan, *out, p->alpha, CUDNN_TYPE_FLOAT, 1, &one));
    GPUR_TRY(set(plan, *out, p->beta, CUDNN_TYPE_FLOAT, 1, &none));
    return finalize(plan, *out);
}

/* x, w and y. A y before its epilogue is virtual: nobody stores it. */
static inline gpur_status make_conv_arrays(gpur_cudadnn_plan *plan, const gpur_conv_shape *s, descriptor arrays[3],
                                           tensor_kind *y)
{
    const cudnnDataType_t type = s->math == GPUR_MATH_BF16 ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_FLOAT;
    const tensor_kind x = image_kind(ID_X, type, s->images, s->channels, s->height, s->width);
    const tensor_kind w = image_kind(ID_W, type, s->filters, s->channels, s->kernel, s->kernel);
    *y = image_kind(s->epilogue ? ID_VIRTUAL : ID_Y, type, s->images, s->filters,
                    gpur_conv_out(s->height, s->kernel, s->stride, s->padding),
                    gpur_conv_out(s->width, s->kernel, s->stride, s->padding));
    GPUR_TRY(make_tensor(plan, &x, &arrays[0]));
    GPUR_TRY(make_tensor(plan, &w, &arrays[1]));
    return make_tensor(plan, y, &arrays[2]);
}

static inline void name_conv(gpur_cudadnn_plan *plan, const gpur_conv_shape *s)
{
    static const char *const names[] = {"forward", "to input", "to weight"};
    snprintf(plan->words, sizeof plan->words,
             "a convolution %s of %d x (%d, %d, %d) by %d filters, kernel %d, stride %d, padding %d, epilogue %d",
             names[s->pass], (int)s->images, (int)s->height, (int)s->width, (int)s->channels, (int)s->filters,
             (int)s->kernel, (int)s->stride, (int)s->padding, (int)s->epilogue);
}

static inline gpur_status describe_conv(gpur_cudadnn_plan *plan, const void *shape)
{
    const gpur_conv_shape *const s = (const gpur_conv_shape *)shape;
    descriptor arrays[3] = {NULL};
    tensor_kind y;
    operations graph = {{NULL}, 1};
    name_conv(plan, s);
    plan->math = s->math, plan->deterministic = s->deterministic;
    if (s->math == GPUR_MATH_BF16 && s->epilogue != GPUR_EPILOGUE_NONE)
        return plan->fail(GPUR_UNAVAILABLE, "no convolution of bfloat16 with a bias is planned by cuDNN here");
    GPUR_TRY(make_conv_arrays(plan, s, arrays, &y));
    GPUR_TRY(make_conv_operation(plan, s, arrays, &graph.list[0]));
    if (s->epilogue != GPUR_EPILOGUE_NONE) {
        const tensor_kind bias = image_kind(ID_BIAS, CUDNN_DATA_FLOAT, 1, s->filters, 1, 1);
        GPUR_TRY(make_epilogue(plan, s->epilogue, &bias, &y, arrays[2], &graph));
    }
    return make_graph(plan, &graph);
}

#endif
