/* SPDX-License-Identifier: MIT */
/*
 * A GPU that is only described: h200.json was made by hand from the fields that cuDNN asks for and an H200's published
 * numbers. Included behind device/module_dnn_cuda.c, whose engines are then chosen for it.
 */
#ifndef GPUR_TEST_MODULE_H200_H
#define GPUR_TEST_MODULE_H200_H

#include "test.h"

static descriptor h200;

/* 1 when this cuDNN takes the description; its fields are undocumented and may change. */
static int describe_h200(const char *path)
{
    static char json[1 << 14];
    FILE *const file = fopen(path, "r");
    const size_t length = file ? fread(json, 1, sizeof json - 1, file) : 0;
    if (file)
        fclose(file);
    return length > 0 &&
           cudnnBackendCreateDescriptor(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, &h200) == CUDNN_STATUS_SUCCESS &&
           cudnnBackendSetAttribute(h200, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
                                    (int64_t)length + 1, json) == CUDNN_STATUS_SUCCESS &&
           cudnnBackendFinalize(h200) == CUDNN_STATUS_SUCCESS;
}

/* The notes of the engine that was taken; -1 when cuDNN does not tell. */
static int64_t notes_of(const gpur_cudadnn_plan *plan, cudnnBackendNumericalNote_t notes[MOST_NOTES])
{
    descriptor engine = NULL;
    int64_t count = -1;
    if (cudnnBackendCreateDescriptor(CUDNN_BACKEND_ENGINE_DESCRIPTOR, &engine) != CUDNN_STATUS_SUCCESS)
        return -1;
    if (cudnnBackendGetAttribute(plan->config, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count,
                                 &engine) != CUDNN_STATUS_SUCCESS ||
        cudnnBackendGetAttribute(engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE, MOST_NOTES,
                                 &count, notes) != CUDNN_STATUS_SUCCESS)
        count = -1;
    (void)cudnnBackendDestroyDescriptor(engine);
    return count;
}

static int has_note(const gpur_cudadnn_plan *plan, cudnnBackendNumericalNote_t note)
{
    cudnnBackendNumericalNote_t notes[MOST_NOTES];
    int found = 0;
    for (int64_t i = notes_of(plan, notes) - 1; i >= 0; i--)
        found |= notes[i] == note;
    return found;
}

#endif
