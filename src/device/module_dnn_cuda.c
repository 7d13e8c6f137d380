/* SPDX-License-Identifier: MIT */
/*
 * The module libgpureplay_cudadnn: convolutions by cuDNN's backend graphs, and library calls only. A plan's graph is
 * described here, and run; module_engine_cuda.h has the choice of its engine.
 */
#include "device/module_engine_cuda.h"

#include <stdlib.h>

static int64_t library_version(void)
{
    return (int64_t)cudnnGetVersion();
}

static gpur_status open_library(void **handle, gpur_fail_fn fail)
{
    cudnnHandle_t made = NULL;
    const cudnnStatus_t status = cudnnCreate(&made);
    *handle = (void *)made;
    return check(status, fail, "cudnnCreate");
}

static void close_library(void *handle)
{
    if (handle)
        (void)cudnnDestroy((cudnnHandle_t)handle);
}

static int64_t greatest_alignment(int64_t bytes)
{
    return bytes % 16 == 0 ? 16 : bytes % 8 == 0 ? 8 : bytes % 4 == 0 ? 4 : 2;
}

/* Four axes as cuDNN names them, N, C, H, W or F, C, K, K, with the second one last in memory. A batch may begin behind
 * another one, so images are as aligned as their size; all else is at the start of a block. */
static gpur_status make_tensor(gpur_cudadnn_plan *plan, const tensor_kind *kind, descriptor *out)
{
    const int64_t *const d = kind->dims;
    const int64_t strides[4] = {d[1] * d[2] * d[3], 1, d[1] * d[3], d[1]};
    const int64_t size = kind->type == CUDNN_DATA_BFLOAT16 ? 2 : 4;
    const int64_t alignment = kind->id == ID_X ? greatest_alignment(strides[0] * size) : 16;
    const bool is_virtual = kind->id >= ID_VIRTUAL;
    GPUR_TRY(make(plan, CUDNN_BACKEND_TENSOR_DESCRIPTOR, out));
    GPUR_TRY(set(plan, *out, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &kind->type));
    GPUR_TRY(set(plan, *out, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, d));
    GPUR_TRY(set(plan, *out, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, strides));
    GPUR_TRY(set(plan, *out, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &kind->id));
    GPUR_TRY(set(plan, *out, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &alignment));
    GPUR_TRY(set(plan, *out, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &is_virtual));
    return finalize(plan, *out);
}

static gpur_status make_convolution(gpur_cudadnn_plan *plan, descriptor *out)
{
    const gpur_conv_shape *const s = &plan->shape;
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

static gpur_status make_operation(gpur_cudadnn_plan *plan, const descriptor arrays[3], descriptor *out)
{
    const pass_names *const p = &passes[plan->shape.pass];
    const float one = 1.0f, none = 0.0f;
    descriptor conv = NULL;
    GPUR_TRY(make_convolution(plan, &conv));
    GPUR_TRY(make(plan, p->kind, out));
    GPUR_TRY(set(plan, *out, p->conv, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &conv));
    GPUR_TRY(set(plan, *out, p->x, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &arrays[0]));
    GPUR_TRY(set(plan, *out, p->w, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &arrays[1]));
    GPUR_TRY(set(plan, *out, p->y, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &arrays[2]));
    GPUR_TRY(set(plan, *out, p->alpha, CUDNN_TYPE_FLOAT, 1, &one));
    GPUR_TRY(set(plan, *out, p->beta, CUDNN_TYPE_FLOAT, 1, &none));
    return finalize(plan, *out);
}

/* `b` is NULL for an operation of one input. */
static gpur_status make_pointwise(gpur_cudadnn_plan *plan, cudnnPointwiseMode_t mode, descriptor x, descriptor b,
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

/* x, w and y. A y before its epilogue is virtual: nobody stores it. */
static gpur_status make_arrays(gpur_cudadnn_plan *plan, descriptor arrays[3])
{
    const gpur_conv_shape *const s = &plan->shape;
    const cudnnDataType_t type = s->math == GPUR_MATH_BF16 ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_FLOAT;
    const tensor_kind x = {ID_X, type, {s->images, s->channels, s->height, s->width}};
    const tensor_kind w = {ID_W, type, {s->filters, s->channels, s->kernel, s->kernel}};
    const tensor_kind y = {s->epilogue ? ID_VIRTUAL : ID_Y,
                           type,
                           {s->images, s->filters, gpur_conv_out(s->height, s->kernel, s->stride, s->padding),
                            gpur_conv_out(s->width, s->kernel, s->stride, s->padding)}};
    GPUR_TRY(make_tensor(plan, &x, &arrays[0]));
    GPUR_TRY(make_tensor(plan, &w, &arrays[1]));
    plan->y = y;
    return make_tensor(plan, &y, &arrays[2]);
}

/* Bias, and ReLU behind it. */
static gpur_status make_epilogue(gpur_cudadnn_plan *plan, descriptor y, descriptor operations[3], int64_t *count)
{
    const int has_relu = plan->shape.epilogue == GPUR_EPILOGUE_BIAS_RELU;
    const tensor_kind bias_kind = {ID_BIAS, CUDNN_DATA_FLOAT, {1, plan->shape.filters, 1, 1}};
    tensor_kind kind = plan->y;
    descriptor bias = NULL, biased = NULL, out = NULL;
    GPUR_TRY(make_tensor(plan, &bias_kind, &bias));
    kind.id = has_relu ? ID_VIRTUAL + 1 : ID_Y;
    GPUR_TRY(make_tensor(plan, &kind, &biased));
    GPUR_TRY(make_pointwise(plan, CUDNN_POINTWISE_ADD, y, bias, biased, &operations[(*count)++]));
    if (!has_relu)
        return GPUR_OK;
    kind.id = ID_Y;
    GPUR_TRY(make_tensor(plan, &kind, &out));
    return make_pointwise(plan, CUDNN_POINTWISE_RELU_FWD, biased, NULL, out, &operations[(*count)++]);
}

static gpur_status describe(gpur_cudadnn_plan *plan)
{
    descriptor arrays[3] = {NULL}, operations[3] = {NULL};
    int64_t count = 1;
    if (plan->shape.math == GPUR_MATH_BF16 && plan->shape.epilogue != GPUR_EPILOGUE_NONE)
        return plan->fail(GPUR_UNAVAILABLE, "cuDNN has no convolution of bfloat16 with a bias");
    GPUR_TRY(make_arrays(plan, arrays));
    GPUR_TRY(make_operation(plan, arrays, &operations[0]));
    if (plan->shape.epilogue != GPUR_EPILOGUE_NONE)
        GPUR_TRY(make_epilogue(plan, arrays[2], operations, &count));
    GPUR_TRY(make(plan, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, &plan->graph));
    GPUR_TRY(set(plan, plan->graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, count, operations));
    return finalize(plan, plan->graph);
}

static void plan_destroy(gpur_cudadnn_plan *plan)
{
    if (!plan)
        return;
    if (plan->chosen)
        (void)cudnnBackendDestroyDescriptor(plan->chosen);
    if (plan->config)
        (void)cudnnBackendDestroyDescriptor(plan->config);
    while (plan->count > 0)
        (void)cudnnBackendDestroyDescriptor(plan->made[--plan->count]);
    free(plan);
}

static gpur_status plan_describe(const gpur_conv_shape *shape, gpur_fail_fn fail, gpur_cudadnn_plan **out)
{
    *out = NULL;
    gpur_cudadnn_plan *const plan = (gpur_cudadnn_plan *)calloc(1, sizeof *plan);
    if (!plan)
        return fail(GPUR_OUT_OF_MEMORY, "no host memory for a plan of %zu bytes", sizeof *plan);
    plan->shape = *shape;
    plan->fail = fail;
    const gpur_status status = describe(plan);
    if (status != GPUR_OK) {
        plan_destroy(plan);
        return status;
    }
    *out = plan;
    return GPUR_OK;
}

static gpur_status plan_choose(void *handle, gpur_cudadnn_plan *plan, gpur_fail_fn fail)
{
    const device_source device = {(cudnnHandle_t)handle, NULL};
    plan->fail = fail;
    return choose(plan, &device);
}

static int64_t plan_workspace_bytes(const gpur_cudadnn_plan *plan)
{
    return plan->workspace_bytes;
}

static gpur_status execute(cudnnHandle_t handle, gpur_cudadnn_plan *plan, const gpur_cudadnn_arrays *a, descriptor pack)
{
    int64_t ids[4] = {ID_X, ID_W, ID_Y, ID_BIAS};
    void *pointers[4] = {a->x, a->w, a->y, a->bias};
    const int64_t count = plan->shape.epilogue == GPUR_EPILOGUE_NONE ? 3 : 4;
    GPUR_TRY(set(plan, pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, count, ids));
    GPUR_TRY(set(plan, pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, count, pointers));
    GPUR_TRY(set(plan, pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &a->workspace));
    GPUR_TRY(finalize(plan, pack));
    return check(cudnnBackendExecute(handle, plan->chosen, pack), plan->fail, "cudnnBackendExecute");
}

static gpur_status plan_run(void *handle, gpur_cudadnn_plan *plan, const gpur_cudadnn_arrays *arrays, void *stream,
                            gpur_fail_fn fail)
{
    descriptor pack = NULL;
    plan->fail = fail;
    GPUR_TRY(check(cudnnSetStream((cudnnHandle_t)handle, (cudaStream_t)stream), fail, "cudnnSetStream"));
    GPUR_TRY(check(cudnnBackendCreateDescriptor(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, &pack), fail,
                   "cudnnBackendCreateDescriptor"));
    const gpur_status status = execute((cudnnHandle_t)handle, plan, arrays, pack);
    (void)cudnnBackendDestroyDescriptor(pack);
    return status;
}

GPUR_API const gpur_cudadnn *gpur_cudadnn_table(void);
const gpur_cudadnn *gpur_cudadnn_table(void)
{
    static const gpur_cudadnn table = {
        .version = GPUR_CUDADNN_VERSION,
        .library_version = library_version,
        .open = open_library,
        .close = close_library,
        .plan_describe = plan_describe,
        .plan_choose = plan_choose,
        .plan_destroy = plan_destroy,
        .plan_workspace_bytes = plan_workspace_bytes,
        .plan_run = plan_run,
    };
    return &table;
}
