/* SPDX-License-Identifier: MIT */
/* The module libgpureplay_cudadnn: convolutions as graphs of cuDNN's backend API. In order: a plan and the choice of
 * its engine; parts of any graph; the graph of a convolution; the module's table. */
#include "device/cuda/modules/cudnn.h"

#include "gpureplay/math.h"

#include <cudnn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef cudnnBackendDescriptor_t descriptor;

/* Ids of the arrays in a graph. Ids from ID_VIRTUAL on are of virtual tensors, which only pass from one operation to
 * the next. */
enum { ID_X = 1, ID_W = 2, ID_Y = 3, ID_BIAS = 4, ID_VIRTUAL = 10 };

enum { MAX_DESCRIPTORS = 24, MAX_CONFIGS = 24, MAX_NOTES = CUDNN_NUMERICAL_NOTE_TYPE_COUNT };

/* Limit of an engine's workspace in bytes. */
static const int64_t workspace_limit = (int64_t)256 << 20;

struct gpur_cudadnn_plan {
    char words[240];                  /* what it computes, for error messages */
    int32_t pass, math;               /* GPUR_CONV_*, GPUR_MATH_* */
    int32_t deterministic;            /* 1: only engines with bitwise repeatable results */
    int32_t has_bias;                 /* 1: the graph reads a bias */
    int64_t smaller_array;            /* bytes of x or y, whichever is smaller */
    gpur_fail_fn fail;                /* `fail` of the current call */
    descriptor made[MAX_DESCRIPTORS]; /* (count), in the order of creation */
    int count;
    descriptor graph;
    descriptor config, chosen; /* the engine with its settings; its finalized execution plan */
    int64_t workspace_bytes;

    /* The number of configurations that the heuristics returned, and why each was rejected: for the error message. */
    int64_t found, of_other_arithmetic, not_planned, too_large;
    cudnnStatus_t last_failure; /* of the heuristics, or of making an execution plan */
};

/*
 * The device that engines are chosen for. The heuristics know it only from its properties or, before cuDNN 9.8, which
 * introduced these, from the handle set in the operation graph. Without either they succeed but find nothing. A test
 * without a GPU has the properties of a described device, and no handle.
 */
typedef struct device_source {
    cudnnHandle_t handle;
    descriptor properties; /* NULL: this cuDNN version has none */
} device_source;

static inline int is_out_of_memory(cudnnStatus_t status)
{
    return status == CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED ||
           status == CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED;
}

static inline gpur_status check(cudnnStatus_t status, gpur_fail_fn fail, const char *call)
{
    if (status == CUDNN_STATUS_SUCCESS)
        return GPUR_OK;
    const gpur_status ours = is_out_of_memory(status) ? GPUR_OUT_OF_MEMORY
                             : status >= CUDNN_STATUS_NOT_SUPPORTED && status < CUDNN_STATUS_INTERNAL_ERROR
                                 ? GPUR_UNAVAILABLE
                                 : GPUR_DEVICE_ERROR;
    return fail(ours, "%s: %s (%d)", call, cudnnGetErrorString(status), (int)status);
}

static inline gpur_status make(gpur_cudadnn_plan *plan, cudnnBackendDescriptorType_t kind, descriptor *out)
{
    *out = NULL;
    if (plan->count == MAX_DESCRIPTORS)
        return plan->fail(GPUR_DEVICE_ERROR, "a graph of cuDNN's has more than %d parts", MAX_DESCRIPTORS);
    GPUR_TRY(check(cudnnBackendCreateDescriptor(kind, out), plan->fail, "cudnnBackendCreateDescriptor"));
    plan->made[plan->count++] = *out;
    return GPUR_OK;
}

static inline gpur_status set(gpur_cudadnn_plan *plan, descriptor d, cudnnBackendAttributeName_t name,
                              cudnnBackendAttributeType_t type, int64_t count, const void *values)
{
    return check(cudnnBackendSetAttribute(d, name, type, count, values), plan->fail, "cudnnBackendSetAttribute");
}

static inline gpur_status finalize(gpur_cudadnn_plan *plan, descriptor d)
{
    return check(cudnnBackendFinalize(d), plan->fail, "cudnnBackendFinalize");
}

/* How good an engine is, by its numerical notes. */
enum { FORBIDDEN, ALLOWED, PREFERRED };

/* FP32 requires float32 operands and sums, so it allows only the note about NaN propagation; bitwise repeatable results
 * forbid nondeterministic engines. Engines are preferred that use tensor cores, add up in float32, and do so in a fixed
 * order. */
static inline int grade_of(const gpur_cudadnn_plan *plan, const cudnnBackendNumericalNote_t *notes, int64_t count)
{
    int has_tensor_cores = 0, sums_in_float32 = 1, is_repeatable = 1, is_float32 = 1;
    for (int64_t i = 0; i < count && i < MAX_NOTES; i++) {
        has_tensor_cores |= notes[i] == CUDNN_NUMERICAL_NOTE_TENSOR_CORE;
        sums_in_float32 &= notes[i] != CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION;
        is_repeatable &= notes[i] != CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC;
        is_float32 &=
            notes[i] == CUDNN_NUMERICAL_NOTE_STRICT_NAN_PROP || notes[i] == CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC;
    }
    if ((plan->deterministic && !is_repeatable) || (plan->math == GPUR_MATH_FP32 && !is_float32))
        return FORBIDDEN;
    return has_tensor_cores && sums_in_float32 && is_repeatable ? PREFERRED : ALLOWED;
}

/* The number of cuDNN's "analytic" engine for gradients by the input. On an H200 a step of nature-dueling in bfloat16,
 * batch 32, took 240 us with it, and 214 us with the next engine in the heuristics' order. */
enum { SLOW_ENGINE = 59 };

static inline cudnnStatus_t grade_engine(const gpur_cudadnn_plan *plan, descriptor config, descriptor engine,
                                         int *grade)
{
    cudnnBackendNumericalNote_t notes[MAX_NOTES];
    int64_t count = 0, number = 0;
    cudnnStatus_t status = cudnnBackendGetAttribute(config, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                                                    1, &count, &engine);
    if (status == CUDNN_STATUS_SUCCESS)
        status = cudnnBackendGetAttribute(engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1, &count, &number);
    if (status == CUDNN_STATUS_SUCCESS)
        status = cudnnBackendGetAttribute(engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
                                          MAX_NOTES, &count, notes);
    if (status == CUDNN_STATUS_SUCCESS)
        *grade = grade_of(plan, notes, count);
    if (*grade == PREFERRED && plan->pass == GPUR_CONV_TO_INPUT && number == SLOW_ENGINE)
        *grade = ALLOWED;
    return status;
}

static inline gpur_status get_grade(const gpur_cudadnn_plan *plan, descriptor config, int *grade)
{
    descriptor engine = NULL;
    GPUR_TRY(check(cudnnBackendCreateDescriptor(CUDNN_BACKEND_ENGINE_DESCRIPTOR, &engine), plan->fail,
                   "cudnnBackendCreateDescriptor"));
    const cudnnStatus_t status = grade_engine(plan, config, engine, grade);
    (void)cudnnBackendDestroyDescriptor(engine);
    return check(status, plan->fail, "cudnnBackendGetAttribute");
}

/* Makes and finalizes an execution plan of the config; makes none on failure. */
static inline cudnnStatus_t make_execution(const device_source *device, descriptor config, descriptor *out)
{
    cudnnStatus_t status = cudnnBackendCreateDescriptor(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, out);
    if (status != CUDNN_STATUS_SUCCESS)
        return status;
    status = cudnnBackendSetAttribute(*out, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
                                      &config);
    if (status == CUDNN_STATUS_SUCCESS && device->handle)
        status =
            cudnnBackendSetAttribute(*out, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &device->handle);
    else if (status == CUDNN_STATUS_SUCCESS)
        status = cudnnBackendSetAttribute(*out, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
                                          &device->properties);
    if (status == CUDNN_STATUS_SUCCESS)
        status = cudnnBackendFinalize(*out);
    if (status == CUDNN_STATUS_SUCCESS)
        return status;
    (void)cudnnBackendDestroyDescriptor(*out);
    *out = NULL;
    return status;
}

/* A config that cannot be made into an execution plan is skipped; running out of memory is an error. */
static inline gpur_status pass_over(gpur_cudadnn_plan *plan, cudnnStatus_t status)
{
    plan->not_planned++;
    plan->last_failure = status;
    return is_out_of_memory(status) ? check(status, plan->fail, "making a plan of cuDNN's") : GPUR_OK;
}

/* Makes this config the plan's if its grade is `wanted` or better, it can be made into an execution plan (the
 * heuristics are not always right) and its workspace is small enough. A preferred engine's must be too small for a copy
 * of an array: copies in another order take longer than most convolutions. */
static inline gpur_status try_config(gpur_cudadnn_plan *plan, const device_source *device, descriptor config,
                                     int wanted)
{
    const int64_t limit =
        wanted == PREFERRED && plan->smaller_array <= workspace_limit ? plan->smaller_array - 1 : workspace_limit;
    int64_t bytes = 0, count = 0;
    int grade = FORBIDDEN;
    descriptor made = NULL;
    GPUR_TRY(get_grade(plan, config, &grade));
    plan->of_other_arithmetic += grade == FORBIDDEN;
    if (grade < wanted)
        return GPUR_OK;
    cudnnStatus_t status = make_execution(device, config, &made);
    if (status != CUDNN_STATUS_SUCCESS)
        return pass_over(plan, status);
    status =
        cudnnBackendGetAttribute(made, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &count, &bytes);
    plan->too_large += status == CUDNN_STATUS_SUCCESS && bytes > limit;
    if (status != CUDNN_STATUS_SUCCESS || bytes > limit) {
        (void)cudnnBackendDestroyDescriptor(made);
        return status == CUDNN_STATUS_SUCCESS ? GPUR_OK : pass_over(plan, status);
    }
    plan->chosen = made;
    plan->workspace_bytes = bytes;
    return GPUR_OK;
}

/* Fills `configs`, whose descriptors exist already, with the heuristics' results, best first, and sets their
 * `count`. */
static inline cudnnStatus_t get_configs(const gpur_cudadnn_plan *plan, const device_source *device,
                                        cudnnBackendHeurMode_t mode, descriptor heuristics, descriptor *configs,
                                        int64_t *count)
{
    cudnnStatus_t status = cudnnBackendSetAttribute(heuristics, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH,
                                                    CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &plan->graph);
    if (status == CUDNN_STATUS_SUCCESS)
        status = cudnnBackendSetAttribute(heuristics, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
    if (status == CUDNN_STATUS_SUCCESS && device->properties)
        status = cudnnBackendSetAttribute(heuristics, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                                          1, &device->properties);
    if (status == CUDNN_STATUS_SUCCESS)
        status = cudnnBackendFinalize(heuristics);
    if (status == CUDNN_STATUS_SUCCESS)
        status = cudnnBackendGetAttribute(heuristics, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                                          MAX_CONFIGS, count, configs);
    return status;
}

/* If the heuristics fail, they have found nothing; that is an error only if memory ran out. */
static inline gpur_status query_heuristics(gpur_cudadnn_plan *plan, const device_source *device,
                                           cudnnBackendHeurMode_t mode, descriptor heuristics, descriptor *configs,
                                           int64_t *count)
{
    const cudnnStatus_t status = get_configs(plan, device, mode, heuristics, configs, count);
    if (status != CUDNN_STATUS_SUCCESS) {
        *count = 0;
        plan->last_failure = status;
        return is_out_of_memory(status) ? check(status, plan->fail, "asking cuDNN's heuristics") : GPUR_OK;
    }
    *count = *count < MAX_CONFIGS ? *count : MAX_CONFIGS;
    plan->found += *count;
    return GPUR_OK;
}

static inline gpur_status choose_among(gpur_cudadnn_plan *plan, const device_source *device,
                                       cudnnBackendHeurMode_t mode, int wanted, descriptor configs[MAX_CONFIGS])
{
    descriptor heuristics = NULL;
    int64_t count = 0;
    gpur_status status = check(cudnnBackendCreateDescriptor(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, &heuristics),
                               plan->fail, "cudnnBackendCreateDescriptor");
    if (status == GPUR_OK)
        status = query_heuristics(plan, device, mode, heuristics, configs, &count);
    for (int64_t i = 0; i < count && status == GPUR_OK && !plan->chosen; i++) {
        status = try_config(plan, device, configs[i], wanted);
        if (plan->chosen) {
            plan->config = configs[i];
            configs[i] = NULL;
        }
    }
    if (heuristics)
        (void)cudnnBackendDestroyDescriptor(heuristics);
    return status;
}

static inline gpur_status choose_by(gpur_cudadnn_plan *plan, const device_source *device, cudnnBackendHeurMode_t mode,
                                    int wanted)
{
    descriptor configs[MAX_CONFIGS] = {NULL};
    gpur_status status = GPUR_OK;
    for (int i = 0; i < MAX_CONFIGS && status == GPUR_OK; i++)
        status = check(cudnnBackendCreateDescriptor(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, &configs[i]), plan->fail,
                       "cudnnBackendCreateDescriptor");
    if (status == GPUR_OK)
        status = choose_among(plan, device, mode, wanted, configs);
    for (int i = 0; i < MAX_CONFIGS; i++)
        if (configs[i])
            (void)cudnnBackendDestroyDescriptor(configs[i]);
    return status;
}

/* Completes the description of the graph, which before cuDNN 9.8 includes the device. */
static inline gpur_status finish_graph(gpur_cudadnn_plan *plan, const device_source *device)
{
    if (device->handle && !device->properties)
        GPUR_TRY(set(plan, plan->graph, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &device->handle));
    return finalize(plan, plan->graph);
}

/* cuDNN's text is about its last failure, which may be of another plan. */
static inline gpur_status refuse_engines(const gpur_cudadnn_plan *plan)
{
    static const char *const arithmetic[] = {"FP32", "TF32", "BF16"};
    char words[160] = "";
    cudnnGetLastErrorString(words, sizeof words);
    words[strcspn(words, "\n")] = '\0';
    return plan->fail(
        GPUR_UNAVAILABLE,
        "cuDNN has no engine for %s, %s%s: its heuristics gave %d configurations, %d of another "
        "arithmetic, %d that cannot be planned, %d that want more than %d MiB of workspace; last failure: %s%s%s",
        plan->words, arithmetic[plan->math], plan->deterministic ? ", deterministic" : "", (int)plan->found,
        (int)plan->of_other_arithmetic, (int)plan->not_planned, (int)plan->too_large, (int)(workspace_limit >> 20),
        cudnnGetErrorString(plan->last_failure), *words ? ": " : "", words);
}

/* Chooses the first usable config: first of those the heuristics expect to be fast, the preferred ones before all, then
 * of the fallbacks, which always work. */
static inline gpur_status choose(gpur_cudadnn_plan *plan, const device_source *device)
{
    if (!device->handle && !device->properties)
        return plan->fail(GPUR_DEVICE_ERROR, "an engine of cuDNN's was to be chosen without a device");
    GPUR_TRY(finish_graph(plan, device));
    for (int wanted = plan->math == GPUR_MATH_FP32 ? ALLOWED : PREFERRED; wanted >= ALLOWED && !plan->chosen;
         wanted--) {
        plan->found = plan->of_other_arithmetic = plan->not_planned = plan->too_large = 0;
        GPUR_TRY(choose_by(plan, device, CUDNN_HEUR_MODE_A, wanted));
    }
    if (!plan->chosen)
        GPUR_TRY(choose_by(plan, device, CUDNN_HEUR_MODE_FALLBACK, ALLOWED));
    return plan->chosen ? GPUR_OK : refuse_engines(plan);
}

/* Parts of a graph, whatever it computes. */

enum { MAX_AXES = 4, MAX_OPERATIONS = 6 };

typedef struct tensor_kind {
    int64_t id;
    cudnnDataType_t type;
    int64_t axes;
    int64_t dims[MAX_AXES], strides[MAX_AXES];
    int64_t alignment; /* of the first element, in bytes */
} tensor_kind;

/* The operations of a graph, in the order of their dependencies. */
typedef struct operations {
    descriptor list[MAX_OPERATIONS];
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

/* `b` is NULL for operations with one input. */
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

/* Adds bias and, if the epilogue has it, ReLU after the virtual tensor `y` of kind `y_kind`; the result is stored as
 * ID_Y, of the bias's type. */
static inline gpur_status make_epilogue(gpur_cudadnn_plan *plan, int32_t epilogue, const tensor_kind *bias_kind,
                                        const tensor_kind *y_kind, descriptor y, operations *graph)
{
    const int has_relu = epilogue == GPUR_EPILOGUE_BIAS_RELU;
    tensor_kind kind = *y_kind;
    descriptor bias = NULL, biased = NULL, out = NULL;
    plan->has_bias = 1;
    GPUR_TRY(make_tensor(plan, bias_kind, &bias));
    kind.id = has_relu ? ID_VIRTUAL + 1 : ID_Y;
    kind.type = has_relu ? kind.type : bias_kind->type;
    GPUR_TRY(make_tensor(plan, &kind, &biased));
    GPUR_TRY(make_pointwise(plan, CUDNN_POINTWISE_ADD, y, bias, biased, &graph->list[graph->count++]));
    if (!has_relu)
        return GPUR_OK;
    kind.id = ID_Y;
    kind.type = bias_kind->type;
    GPUR_TRY(make_tensor(plan, &kind, &out));
    return make_pointwise(plan, CUDNN_POINTWISE_RELU_FWD, biased, NULL, out, &graph->list[graph->count++]);
}

/* Leaves the graph unfinalized: finish_graph finalizes it when the device is known. */
static inline gpur_status make_graph(gpur_cudadnn_plan *plan, const operations *graph)
{
    GPUR_TRY(make(plan, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, &plan->graph));
    return set(plan, plan->graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, graph->count,
               graph->list);
}

/* The graph of a convolution or of one of its gradients. */

static inline int64_t greatest_alignment(int64_t bytes)
{
    return bytes % 16 == 0 ? 16 : bytes % 8 == 0 ? 8 : bytes % 4 == 0 ? 4 : 2;
}

/* Four axes as cuDNN names them, N, C, H, W or F, C, K, K, with the second axis (C) innermost in memory. A batch of
 * images may start anywhere in a larger array of them, so x is only as aligned as the size of an image allows; all
 * other arrays are aligned to 16 bytes. */
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
    const int64_t two = 2, strides[2] = {s->stride, s->stride}, dilations[2] = {1, 1};
    const int64_t before[2] = {s->top, s->left}, after[2] = {s->bottom, s->right};
    const cudnnDataType_t type = CUDNN_DATA_FLOAT;
    const cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
    GPUR_TRY(make(plan, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR, out));
    GPUR_TRY(set(plan, *out, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, 1, &two));
    GPUR_TRY(set(plan, *out, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type));
    GPUR_TRY(set(plan, *out, CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode));
    GPUR_TRY(set(plan, *out, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, 2, before));
    GPUR_TRY(set(plan, *out, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, 2, after));
    GPUR_TRY(set(plan, *out, CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, 2, dilations));
    GPUR_TRY(set(plan, *out, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, 2, strides));
    return finalize(plan, *out);
}

/* The attribute names that the operation of each pass uses. */
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

static inline cudnnDataType_t array_type(const gpur_conv_shape *s)
{
    return s->math == GPUR_MATH_BF16 ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_FLOAT;
}

/* Makes x, w and y. With an epilogue y is virtual: it is never stored, and float32. */
static inline gpur_status make_conv_arrays(gpur_cudadnn_plan *plan, const gpur_conv_shape *s, descriptor arrays[3],
                                           tensor_kind *y)
{
    const cudnnDataType_t type = array_type(s);
    const tensor_kind x = image_kind(ID_X, type, s->images, s->channels, s->height, s->width);
    const tensor_kind w = image_kind(ID_W, type, s->filters, s->channels, s->kernel, s->kernel);
    *y = image_kind(s->epilogue ? ID_VIRTUAL : ID_Y, s->epilogue ? CUDNN_DATA_FLOAT : type, s->images, s->filters,
                    gpur_conv_out_height(s), gpur_conv_out_width(s));
    GPUR_TRY(make_tensor(plan, &x, &arrays[0]));
    GPUR_TRY(make_tensor(plan, &w, &arrays[1]));
    return make_tensor(plan, y, &arrays[2]);
}

static inline void name_conv(gpur_cudadnn_plan *plan, const gpur_conv_shape *s)
{
    static const char *const names[] = {"forward", "to input", "to weight"};
    snprintf(plan->words, sizeof plan->words,
             "a convolution %s of %d x (%d, %d, %d) by %d filters, kernel %d, stride %d, padding %d + %d "
             "rows and %d + %d columns, epilogue %d",
             names[s->pass], (int)s->images, (int)s->height, (int)s->width, (int)s->channels, (int)s->filters,
             (int)s->kernel, (int)s->stride, (int)s->top, (int)s->bottom, (int)s->left, (int)s->right,
             (int)s->epilogue);
}

static inline int64_t smaller_array_of(const gpur_conv_shape *s)
{
    const int64_t x = s->height * s->width * s->channels;
    const int64_t y = gpur_conv_out_height(s) * gpur_conv_out_width(s) * s->filters;
    return s->images * (x < y ? x : y) * (s->math == GPUR_MATH_BF16 ? 2 : 4);
}

static inline gpur_status describe_conv(gpur_cudadnn_plan *plan, const gpur_conv_shape *s)
{
    descriptor arrays[3] = {NULL};
    tensor_kind y;
    operations graph = {{NULL}, 1};
    name_conv(plan, s);
    plan->pass = s->pass, plan->math = s->math, plan->deterministic = s->deterministic;
    plan->smaller_array = smaller_array_of(s);
    GPUR_TRY(make_conv_arrays(plan, s, arrays, &y));
    GPUR_TRY(make_conv_operation(plan, s, arrays, &graph.list[0]));
    if (s->epilogue != GPUR_EPILOGUE_NONE) {
        const tensor_kind bias = image_kind(ID_BIAS, array_type(s), 1, s->filters, 1, 1);
        GPUR_TRY(make_epilogue(plan, s->epilogue, &bias, &y, arrays[2], &graph));
    }
    return make_graph(plan, &graph);
}

/* The module's functions and its table. */

static int64_t library_version(void)
{
    return (int64_t)cudnnGetVersion();
}

static void close_library(void *handle)
{
    device_source *const device = (device_source *)handle;
    if (!device)
        return;
    if (device->properties)
        (void)cudnnBackendDestroyDescriptor(device->properties);
    if (device->handle)
        (void)cudnnDestroy(device->handle);
    free(device);
}

/* Returns the properties of the handle's device; NULL if this cuDNN version has no such descriptor. */
static descriptor read_properties(cudnnHandle_t handle)
{
    descriptor made = NULL;
    if (cudnnBackendCreateDescriptor(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, &made) != CUDNN_STATUS_SUCCESS)
        return NULL;
    if (cudnnBackendSetAttribute(made, CUDNN_ATTR_DEVICEPROP_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle) ==
            CUDNN_STATUS_SUCCESS &&
        cudnnBackendFinalize(made) == CUDNN_STATUS_SUCCESS)
        return made;
    (void)cudnnBackendDestroyDescriptor(made);
    return NULL;
}

static gpur_status open_library(void **handle, gpur_fail_fn fail)
{
    *handle = NULL;
    device_source *const device = (device_source *)calloc(1, sizeof *device);
    if (!device)
        return fail(GPUR_OUT_OF_MEMORY, "no host memory for a handle of cuDNN's: %zu bytes", sizeof *device);
    const gpur_status status = check(cudnnCreate(&device->handle), fail, "cudnnCreate");
    if (status != GPUR_OK) {
        close_library(device);
        return status;
    }
    device->properties = read_properties(device->handle);
    *handle = device;
    return GPUR_OK;
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

/* Makes no plan on failure. */
static gpur_status plan_conv(const gpur_conv_shape *shape, gpur_fail_fn fail, gpur_cudadnn_plan **out)
{
    *out = NULL;
    gpur_cudadnn_plan *const plan = (gpur_cudadnn_plan *)calloc(1, sizeof *plan);
    if (!plan)
        return fail(GPUR_OUT_OF_MEMORY, "no host memory for a plan of %zu bytes", sizeof *plan);
    plan->fail = fail;
    const gpur_status status = describe_conv(plan, shape);
    if (status != GPUR_OK) {
        plan_destroy(plan);
        return status;
    }
    *out = plan;
    return GPUR_OK;
}

static gpur_status plan_choose(void *handle, gpur_cudadnn_plan *plan, gpur_fail_fn fail)
{
    plan->fail = fail;
    return choose(plan, (const device_source *)handle);
}

static int64_t plan_workspace_bytes(const gpur_cudadnn_plan *plan)
{
    return plan->workspace_bytes;
}

static gpur_status execute(cudnnHandle_t handle, gpur_cudadnn_plan *plan, const gpur_cudadnn_arrays *a, descriptor pack)
{
    int64_t ids[4] = {ID_X, ID_W, ID_Y, ID_BIAS};
    void *pointers[4] = {a->x, a->w, a->y, a->bias};
    const int64_t count = plan->has_bias ? 4 : 3;
    GPUR_TRY(set(plan, pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, count, ids));
    GPUR_TRY(set(plan, pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, count, pointers));
    GPUR_TRY(set(plan, pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &a->workspace));
    GPUR_TRY(finalize(plan, pack));
    return check(cudnnBackendExecute(handle, plan->chosen, pack), plan->fail, "cudnnBackendExecute");
}

static gpur_status plan_run(void *handle, gpur_cudadnn_plan *plan, const gpur_cudadnn_arrays *arrays, void *stream,
                            gpur_fail_fn fail)
{
    const cudnnHandle_t native = ((const device_source *)handle)->handle;
    descriptor pack = NULL;
    plan->fail = fail;
    GPUR_TRY(check(cudnnSetStream(native, (cudaStream_t)stream), fail, "cudnnSetStream"));
    GPUR_TRY(check(cudnnBackendCreateDescriptor(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, &pack), fail,
                   "cudnnBackendCreateDescriptor"));
    const gpur_status status = execute(native, plan, arrays, pack);
    (void)cudnnBackendDestroyDescriptor(pack);
    return status;
}

GPUR_API const gpur_cudadnn *gpur_cudadnn_table(void);
const gpur_cudadnn *gpur_cudadnn_table(void)
{
    static const gpur_cudadnn table = {
        .module = {GPUR_CUDADNN_VERSION, library_version, open_library, close_library},
        .plan_conv = plan_conv,
        .plan_choose = plan_choose,
        .plan_destroy = plan_destroy,
        .plan_workspace_bytes = plan_workspace_bytes,
        .plan_run = plan_run,
    };
    return &table;
}
