/* SPDX-License-Identifier: MIT */
/*
 * The graph of a dense layer's product, forward or either gradient, with its bias and its ReLU.
 *
 * cuDNN 9 sums float32 products without tensor cores by one engine only, which is cuBLASLt behind another door; so
 * products of FP32 are not for graphs. Under BF16 the factors are rounded inside the graph, to nearest, ties to even.
 */
#ifndef GPUR_MODULE_DENSE_CUDA_H
#define GPUR_MODULE_DENSE_CUDA_H

#include "device/module_graph_cuda.h"

#include <inttypes.h>
#include <stdio.h>

/* (rows, columns) as an operand of the product: a transposed one lies the other way round in memory. */
static inline tensor_kind matrix_kind(const gpur_gemm_shape *s, int64_t id, int64_t rows, int64_t columns,
                                      int64_t pitch, int transposed)
{
    const tensor_kind kind = {
        .id = id,
        .type = CUDNN_DATA_FLOAT,
        .axes = 3,
        .dims = {1, rows, columns},
        .strides = {pitch * (transposed ? columns : rows), transposed ? 1 : pitch, transposed ? pitch : 1},
        .alignment = s->aligned ? 16 : (int64_t)sizeof(float),
    };
    return kind;
}

/* A factor, and under BF16 its rounded copy, which is virtual. */
static inline gpur_status make_factor(gpur_cudadnn_plan *plan, const tensor_kind *kind, operations *graph,
                                      descriptor *out)
{
    tensor_kind rounded = *kind;
    descriptor stored = NULL;
    rounded.id = kind->id + 2 * ID_VIRTUAL;
    rounded.type = CUDNN_DATA_BFLOAT16;
    if (plan->math != GPUR_MATH_BF16)
        return make_tensor(plan, kind, out);
    GPUR_TRY(make_tensor(plan, kind, &stored));
    GPUR_TRY(make_tensor(plan, &rounded, out));
    return make_pointwise(plan, CUDNN_POINTWISE_IDENTITY, stored, NULL, *out, &graph->list[graph->count++]);
}

static inline gpur_status make_product(gpur_cudadnn_plan *plan, descriptor a, descriptor b, descriptor c,
                                       descriptor *out)
{
    const cudnnDataType_t type = CUDNN_DATA_FLOAT;
    descriptor product = NULL;
    GPUR_TRY(make(plan, CUDNN_BACKEND_MATMUL_DESCRIPTOR, &product));
    GPUR_TRY(set(plan, product, CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type));
    GPUR_TRY(finalize(plan, product));
    GPUR_TRY(make(plan, CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR, out));
    GPUR_TRY(set(plan, *out, CUDNN_ATTR_OPERATION_MATMUL_DESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &product));
    GPUR_TRY(set(plan, *out, CUDNN_ATTR_OPERATION_MATMUL_ADESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &a));
    GPUR_TRY(set(plan, *out, CUDNN_ATTR_OPERATION_MATMUL_BDESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &b));
    GPUR_TRY(set(plan, *out, CUDNN_ATTR_OPERATION_MATMUL_CDESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &c));
    return finalize(plan, *out);
}

static inline void name_product(gpur_cudadnn_plan *plan, const gpur_gemm_shape *s)
{
    snprintf(plan->words, sizeof plan->words,
             "a product of (%" PRId64 ", %" PRId64 ") by (%" PRId64 ", %" PRId64 ") with rows %" PRId64 ", %" PRId64
             ", %" PRId64 " apart, transposed %d %d, epilogue %d",
             s->m, s->k, s->k, s->n, s->lda, s->ldb, s->ldc, (int)s->transpose_a, (int)s->transpose_b,
             (int)s->epilogue);
}

static inline gpur_status refuse_product(const gpur_cudadnn_plan *plan, const gpur_gemm_shape *s)
{
    if (s->math == GPUR_MATH_FP32)
        return plan->fail(GPUR_UNAVAILABLE, "cuDNN has no engine of its own for %s, FP32", plan->words);
    if (s->accumulate)
        return plan->fail(GPUR_UNAVAILABLE, "%s that is added to what is there is no graph of cuDNN's", plan->words);
    return GPUR_OK;
}

/* Always of engines that repeat their bits, as cuBLASLt's products do. */
static inline gpur_status describe_product(gpur_cudadnn_plan *plan, const void *shape)
{
    const gpur_gemm_shape *const s = (const gpur_gemm_shape *)shape;
    const tensor_kind kind_a = matrix_kind(s, ID_X, s->m, s->k, s->lda, s->transpose_a);
    const tensor_kind kind_b = matrix_kind(s, ID_W, s->k, s->n, s->ldb, s->transpose_b);
    const tensor_kind kind_c = matrix_kind(s, s->epilogue ? ID_VIRTUAL : ID_Y, s->m, s->n, s->ldc, 0);
    const tensor_kind bias = matrix_kind(s, ID_BIAS, 1, s->n, s->n, 0);
    descriptor a = NULL, b = NULL, c = NULL;
    operations graph = {{NULL}, 0};
    name_product(plan, s);
    plan->math = s->math, plan->deterministic = 1;
    GPUR_TRY(refuse_product(plan, s));
    GPUR_TRY(make_factor(plan, &kind_a, &graph, &a));
    GPUR_TRY(make_factor(plan, &kind_b, &graph, &b));
    GPUR_TRY(make_tensor(plan, &kind_c, &c));
    GPUR_TRY(make_product(plan, a, b, c, &graph.list[graph.count++]));
    if (s->epilogue != GPUR_EPILOGUE_NONE)
        GPUR_TRY(make_epilogue(plan, s->epilogue, &bias, &kind_c, c, &graph));
    return make_graph(plan, &graph);
}

#endif
