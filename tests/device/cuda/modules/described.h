/* SPDX-License-Identifier: MIT */
/*
 * A described GPU: a file of its properties in the form that cuDNN's heuristics read. Either print_device wrote the
 * file on such a GPU, or, if its name ends in -by-hand, it was made up from the fields that cuDNN reads and published
 * numbers. Include this after cudnn.c; engines are then chosen for that GPU.
 */
#ifndef GPUR_DEVICE_CUDA_MODULES_DESCRIBED_H
#define GPUR_DEVICE_CUDA_MODULES_DESCRIBED_H

#include "test.h"

static descriptor described;
static char described_json[1 << 14];

/* Returns 1 if this cuDNN accepts the description; its fields are undocumented and may change. */
static int describe(const char *path)
{
    FILE *const file = fopen(path, "r");
    const size_t length = file ? fread(described_json, 1, sizeof described_json - 1, file) : 0;
    if (file)
        fclose(file);
    return length > 0 &&
           cudnnBackendCreateDescriptor(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, &described) == CUDNN_STATUS_SUCCESS &&
           cudnnBackendSetAttribute(described, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
                                    (int64_t)length + 1, described_json) == CUDNN_STATUS_SUCCESS &&
           cudnnBackendFinalize(described) == CUDNN_STATUS_SUCCESS;
}

/* Prints the GPU that engines are chosen for. Returns 0, and prints why, if none can be chosen, or if the GPU is older
 * than compute capability 8.0, for which no engine has the arithmetic that the tests ask for. */
static int describe_and_say(const char *path)
{
    const char *const name = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
    if (!describe(path)) {
        printf("cuDNN %d does not take the description %s: no engines were chosen\n", (int)cudnnGetVersion(), name);
        return 0;
    }
    const char *const version = strstr(described_json, "\"deviceVer\":");
    const int capability = version ? atoi(version + strlen("\"deviceVer\":")) : 0;
    printf("%s: capability %d.%d%s\n", name, capability / 100, capability / 10 % 10,
           strstr(name, "-by-hand") ? ", a description made by hand" : "");
    return !version || capability >= 800;
}

/* Gets the numerical notes of the chosen engine; returns their number, or -1 if cuDNN does not tell. */
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
