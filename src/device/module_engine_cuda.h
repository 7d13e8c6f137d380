/* SPDX-License-Identifier: MIT */
/* A plan of the module libgpureplay_cudadnn: what it is made of, and the choice of the engine that runs its graph. */
#ifndef GPUR_MODULE_ENGINE_CUDA_H
#define GPUR_MODULE_ENGINE_CUDA_H

#include "device/dnn_cuda.h"
#include "gpureplay/learner.h"

#include <cudnn.h>
#include <stdbool.h>
#include <string.h>

typedef cudnnBackendDescriptor_t descriptor;

/* Names of arrays in a graph, from ID_VIRTUAL on of those that only pass from one operation to the next. */
enum { ID_X = 1, ID_W = 2, ID_Y = 3, ID_BIAS = 4, ID_VIRTUAL = 10 };

enum { MOST_DESCRIPTORS = 24, MOST_CONFIGS = 24, MOST_NOTES = CUDNN_NUMERICAL_NOTE_TYPE_COUNT };

/* Bytes of workspace that an engine may want. */
static const int64_t workspace_limit = (int64_t)256 << 20;

struct gpur_cudadnn_plan {
    char words[240];                   /* what it computes, for an error's text */
    int32_t math;                      /* GPUR_MATH_* */
    int32_t deterministic;             /* 1: only engines that repeat their bits */
    int32_t has_bias;                  /* 1: the graph reads one */
    gpur_fail_fn fail;                 /* of the call under way */
    descriptor made[MOST_DESCRIPTORS]; /* (count) in the order in which they were made */
    int count;
    descriptor graph;
    descriptor config, chosen; /* the engine with its settings, and what is executed */
    int64_t workspace_bytes;

    /* What the heuristics gave, and why none of it was taken: for the text of a refusal. */
    int64_t found, of_other_arithmetic, not_planned, too_large;
    cudnnStatus_t last_failure; /* of asking the heuristics, or of making a plan */
};

/*
 * The device that engines are chosen for. Heuristics know of no device unless they are told: they read its properties,
 * or, before cuDNN 9.8 had properties, the handle that the operation graph was given. Told of neither they succeed, and
 * find nothing. A test without a GPU has the properties of a described device, and no handle.
 */
typedef struct device_source {
    cudnnHandle_t handle;
    descriptor properties; /* NULL: this cuDNN has none */
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
    if (plan->count == MOST_DESCRIPTORS)
        return plan->fail(GPUR_DEVICE_ERROR, "a graph of cuDNN's has more than %d parts", MOST_DESCRIPTORS);
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

/* What an engine's note forbids: float32 means its own mantissa and its own sums, and repeated bits a fixed order. */
static inline int is_forbidden(int32_t math, int32_t deterministic, cudnnBackendNumericalNote_t note)
{
    if (note == CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC)
        return deterministic;
    const int exact = note == CUDNN_NUMERICAL_NOTE_STRICT_NAN_PROP;
    return math == GPUR_MATH_FP32 && !exact;
}

static inline gpur_status has_right_notes(const gpur_cudadnn_plan *plan, descriptor config, int *right)
{
    descriptor engine = NULL;
    cudnnBackendNumericalNote_t notes[MOST_NOTES];
    int64_t count = 0;
    GPUR_TRY(check(cudnnBackendCreateDescriptor(CUDNN_BACKEND_ENGINE_DESCRIPTOR, &engine), plan->fail,
                   "cudnnBackendCreateDescriptor"));
    cudnnStatus_t status = cudnnBackendGetAttribute(config, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                                                    1, &count, &engine);
    if (status == CUDNN_STATUS_SUCCESS)
        status = cudnnBackendGetAttribute(engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
                                          MOST_NOTES, &count, notes);
    *right = 1;
    for (int64_t i = 0; status == CUDNN_STATUS_SUCCESS && i < count && i < MOST_NOTES; i++)
        *right = *right && !is_forbidden(plan->math, plan->deterministic, notes[i]);
    (void)cudnnBackendDestroyDescriptor(engine);
    return check(status, plan->fail, "cudnnBackendGetAttribute");
}

/* An execution plan of the config, finalized; a failure leaves none. */
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

/* A plan that cannot be made is no failure; memory that ran out is. */
static inline gpur_status pass_over(gpur_cudadnn_plan *plan, cudnnStatus_t status)
{
    plan->not_planned++;
    plan->last_failure = status;
    return is_out_of_memory(status) ? check(status, plan->fail, "making a plan of cuDNN's") : GPUR_OK;
}

/* Takes the config if it fits. One that cannot be made into a plan does not: the heuristics are not always right. */
static inline gpur_status try_config(gpur_cudadnn_plan *plan, const device_source *device, descriptor config)
{
    int64_t bytes = 0, count = 0;
    int right = 0;
    descriptor made = NULL;
    GPUR_TRY(has_right_notes(plan, config, &right));
    plan->of_other_arithmetic += !right;
    if (!right)
        return GPUR_OK;
    cudnnStatus_t status = make_execution(device, config, &made);
    if (status != CUDNN_STATUS_SUCCESS)
        return pass_over(plan, status);
    status =
        cudnnBackendGetAttribute(made, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &count, &bytes);
    plan->too_large += status == CUDNN_STATUS_SUCCESS && bytes > workspace_limit;
    if (status != CUDNN_STATUS_SUCCESS || bytes > workspace_limit) {
        (void)cudnnBackendDestroyDescriptor(made);
        return status == CUDNN_STATUS_SUCCESS ? GPUR_OK : pass_over(plan, status);
    }
    plan->chosen = made;
    plan->workspace_bytes = bytes;
    return GPUR_OK;
}

/* The configs, best first, into `configs`, where their descriptors wait; how many. */
static inline cudnnStatus_t ask(const gpur_cudadnn_plan *plan, const device_source *device, cudnnBackendHeurMode_t mode,
                                descriptor heuristics, descriptor *configs, int64_t *count)
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
                                          MOST_CONFIGS, count, configs);
    return status;
}

/* Heuristics that fail have found nothing, which is no failure of ours unless memory ran out. */
static inline gpur_status ask_heuristics(gpur_cudadnn_plan *plan, const device_source *device,
                                         cudnnBackendHeurMode_t mode, descriptor heuristics, descriptor *configs,
                                         int64_t *count)
{
    const cudnnStatus_t status = ask(plan, device, mode, heuristics, configs, count);
    if (status != CUDNN_STATUS_SUCCESS) {
        *count = 0;
        plan->last_failure = status;
        return is_out_of_memory(status) ? check(status, plan->fail, "asking cuDNN's heuristics") : GPUR_OK;
    }
    *count = *count < MOST_CONFIGS ? *count : MOST_CONFIGS;
    plan->found += *count;
    return GPUR_OK;
}

static inline gpur_status choose_among(gpur_cudadnn_plan *plan, const device_source *device,
                                       cudnnBackendHeurMode_t mode, descriptor configs[MOST_CONFIGS])
{
    descriptor heuristics = NULL;
    int64_t count = 0;
    gpur_status status = check(cudnnBackendCreateDescriptor(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, &heuristics),
                               plan->fail, "cudnnBackendCreateDescriptor");
    if (status == GPUR_OK)
        status = ask_heuristics(plan, device, mode, heuristics, configs, &count);
    for (int64_t i = 0; i < count && status == GPUR_OK && !plan->chosen; i++) {
        status = try_config(plan, device, configs[i]);
        if (plan->chosen) {
            plan->config = configs[i];
            configs[i] = NULL;
        }
    }
    if (heuristics)
        (void)cudnnBackendDestroyDescriptor(heuristics);
    return status;
}

static inline gpur_status choose_by(gpur_cudadnn_plan *plan, const device_source *device, cudnnBackendHeurMode_t mode)
{
    descriptor configs[MOST_CONFIGS] = {NULL};
    gpur_status status = GPUR_OK;
    for (int i = 0; i < MOST_CONFIGS && status == GPUR_OK; i++)
        status = check(cudnnBackendCreateDescriptor(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, &configs[i]), plan->fail,
                       "cudnnBackendCreateDescriptor");
    if (status == GPUR_OK)
        status = choose_among(plan, device, mode, configs);
    for (int i = 0; i < MOST_CONFIGS; i++)
        if (configs[i])
            (void)cudnnBackendDestroyDescriptor(configs[i]);
    return status;
}

/* The last step of describing the graph, since before cuDNN 9.8 it is the graph that has the device. */
static inline gpur_status finish_graph(gpur_cudadnn_plan *plan, const device_source *device)
{
    if (device->handle && !device->properties)
        GPUR_TRY(set(plan, plan->graph, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &device->handle));
    return finalize(plan, plan->graph);
}

/* cuDNN's own words are of its last failure, which need not be of this plan. */
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

/* The first that fits, of those the heuristics think fast, then of those that always work. */
static inline gpur_status choose(gpur_cudadnn_plan *plan, const device_source *device)
{
    if (!device->handle && !device->properties)
        return plan->fail(GPUR_DEVICE_ERROR, "an engine of cuDNN's was to be chosen without a device");
    GPUR_TRY(finish_graph(plan, device));
    GPUR_TRY(choose_by(plan, device, CUDNN_HEUR_MODE_A));
    if (!plan->chosen)
        GPUR_TRY(choose_by(plan, device, CUDNN_HEUR_MODE_FALLBACK));
    return plan->chosen ? GPUR_OK : refuse_engines(plan);
}

#endif
