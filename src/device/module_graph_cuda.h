/* SPDX-License-Identifier: MIT */
/* The parts of which the graphs of the module libgpureplay_cudadnn are made, whatever they compute. */
#ifndef GPUR_MODULE_GRAPH_CUDA_H
#define GPUR_MODULE_GRAPH_CUDA_H

#include "device/module_engine_cuda.h"

enum { MOST_AXES = 4, MOST_OPERATIONS = 6 };

typedef struct tensor_kind {
    int64_t id;
    cudnnDataType_t type;
    int64_t axes;
    int64_t dims[MOST_AXES], strides[MOST_AXES];
    int64_t alignment; /* bytes, of its first number */
} tensor_kind;

/* The operations of a graph, in the order in which they follow from each other. */
typedef struct operations {
    descriptor list[MOST_OPERATIONS];
    int64_t count;
} operations;

static inline gpur_status make_tensor(gpur_cudadnn_plan *plan, const tensor_kind *kind, descriptor *out)
{
    const bool is_virtual = kind->id >= ID_VIRTUAL;
    GPUR_TRY(make(plan, CUDNN_BACKEND_TENSOR_DESCRIPTOR, out));
    GPUR_TRY(set(plan, *out, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &kind->type));
    GPUR_TRY(set(plan, *out, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, kind->axes, kind->dims));
    GPUR_TRY(set(plan, *out, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, kind->axes, kind->strides));
    GPUR_TRY(set(plan, *out, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &kind->id));
    GPUR_TRY(set(plan, *out, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &kind->alignment));
    GPUR_TRY(set(plan, *out, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &is_virtual));
    return finalize(plan, *out);
}

/* `b` is NULL for an operation of one input. */
static inline gpur_status make_pointwise(gpur_cudadnn_plan *plan, cudnnPointwiseMode_t mode, descriptor x, descriptor b,
                                         descriptor y, descriptor *out)
{
    const cudnnDataType_t type = CUDNN_DATA_FLOAT;
    descriptor pointwise = NULL;
    GPUR_TRY(make(plan, CUDNN_BACKEND_POINTWISE_DESCRIPTOR, &pointwise));
    GPUR_TRY(set(plan, pointwise, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode));
    GPUR_TRY(set(plan, pointwise, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, &type));
    GPUR_TRY(finalize(plan, pointwise));
    GPUR_TRY(make(plan, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR, out));
    GPUR_TRY(
        set(plan, *out, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &pointwise));
    GPUR_TRY(set(plan, *out, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &x));
    if (b)
        GPUR_TRY(set(plan, *out, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &b));
    GPUR_TRY(set(plan, *out, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &y));
    return finalize(plan, *out);
}

/* Bias and ReLU behind it, as far as `epilogue` has them, from the virtual `y` of this kind to what is stored. */
static inline gpur_status make_epilogue(gpur_cudadnn_plan *plan, int32_t epilogue, const tensor_kind *bias_kind,
                                        const tensor_kind *y_kind, descriptor y, operations *graph)
{
    const int has_relu = epilogue == GPUR_EPILOGUE_BIAS_RELU;
    tensor_kind kind = *y_kind;
    descriptor bias = NULL, biased = NULL, out = NULL;
    plan->has_bias = 1;
    GPUR_TRY(make_tensor(plan, bias_kind, &bias));
    kind.id = has_relu ? ID_VIRTUAL + 1 : ID_Y;
    GPUR_TRY(make_tensor(plan, &kind, &biased));
    GPUR_TRY(make_pointwise(plan, CUDNN_POINTWISE_ADD, y, bias, biased, &graph->list[graph->count++]));
    if (!has_relu)
        return GPUR_OK;
    kind.id = ID_Y;
    GPUR_TRY(make_tensor(plan, &kind, &out));
    return make_pointwise(plan, CUDNN_POINTWISE_RELU_FWD, biased, NULL, out, &graph->list[graph->count++]);
}

/* Not finalized yet: finish_graph does that, when the device is known. */
static inline gpur_status make_graph(gpur_cudadnn_plan *plan, const operations *graph)
{
    GPUR_TRY(make(plan, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, &plan->graph));
    return set(plan, plan->graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, graph->count,
               graph->list);
}

#endif
