/* SPDX-License-Identifier: MIT */
/*
 * A cuDNN handle of a described GPU, so that the module's code from a handle to an engine runs without a GPU. Include
 * it instead of cudnn.c. The three attributes that take a handle get the description instead; everything else is
 * cuDNN's own.
 */
#ifndef GPUR_DEVICE_CUDA_MODULES_HANDLE_H
#define GPUR_DEVICE_CUDA_MODULES_HANDLE_H

#include <cudnn.h>

static cudnnStatus_t create_for_test(cudnnHandle_t *handle);
static cudnnStatus_t destroy_for_test(cudnnHandle_t handle);
static cudnnStatus_t make_for_test(cudnnBackendDescriptorType_t kind, cudnnBackendDescriptor_t *made);
static cudnnStatus_t set_for_test(cudnnBackendDescriptor_t to, cudnnBackendAttributeName_t name,
                                  cudnnBackendAttributeType_t type, int64_t count, const void *values);
#define cudnnCreate create_for_test
#define cudnnDestroy destroy_for_test
#define cudnnBackendCreateDescriptor make_for_test
#define cudnnBackendSetAttribute set_for_test
#include "device/cuda/modules/cudnn.c"
#undef cudnnCreate
#undef cudnnDestroy
#undef cudnnBackendCreateDescriptor
#undef cudnnBackendSetAttribute

#include "device/cuda/modules/described.h"

static int described_handle;       /* its address is the handle */
static int handles_open;           /* created and not destroyed */
static int is_old;                 /* 1: act as a cuDNN before 9.8, which has no device descriptors */
static int graphs_told_the_handle; /* number of operation graphs that were given the handle */

static cudnnStatus_t create_for_test(cudnnHandle_t *handle)
{
    *handle = (cudnnHandle_t)(void *)&described_handle;
    handles_open++;
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t destroy_for_test(cudnnHandle_t handle)
{
    handles_open--;
    return (void *)handle == (void *)&described_handle ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_BAD_PARAM;
}

static cudnnStatus_t make_for_test(cudnnBackendDescriptorType_t kind, cudnnBackendDescriptor_t *made)
{
    if (is_old && kind == CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR)
        return CUDNN_STATUS_NOT_SUPPORTED;
    return cudnnBackendCreateDescriptor(kind, made);
}

static cudnnStatus_t set_for_test(cudnnBackendDescriptor_t to, cudnnBackendAttributeName_t name,
                                  cudnnBackendAttributeType_t type, int64_t count, const void *values)
{
    if (type != CUDNN_TYPE_HANDLE)
        return cudnnBackendSetAttribute(to, name, type, count, values);
    const void *given = NULL;
    memcpy(&given, values, sizeof given);
    if (count != 1 || given != (const void *)&described_handle)
        return CUDNN_STATUS_BAD_PARAM;
    switch ((int)name) {
    case CUDNN_ATTR_DEVICEPROP_HANDLE:
        return cudnnBackendSetAttribute(to, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
                                        (int64_t)strlen(described_json) + 1, described_json);
    case CUDNN_ATTR_EXECUTION_PLAN_HANDLE:
        return cudnnBackendSetAttribute(to, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
                                        &described);
    case CUDNN_ATTR_OPERATIONGRAPH_HANDLE:
        graphs_told_the_handle++;
        return CUDNN_STATUS_SUCCESS;
    default:
        return CUDNN_STATUS_BAD_PARAM;
    }
}

#endif
