/* SPDX-License-Identifier: MIT */
/*
 * usage: print_device [cuda:N | FILE.json [OUT.json]]
 *
 * Prints a GPU's properties as JSON, in the form that cuDNN's heuristics read: those of the GPU cuda:N, or those that
 * cuDNN reads from a file, which needs no GPU. Also writes them to OUT.json. Copied into this folder, that file makes
 * the plan tests choose engines for that GPU on any machine.
 */
#include <cuda_runtime_api.h>
#include <cudnn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 1 << 14 };

static int say(cudnnStatus_t status, const char *call)
{
    if (status == CUDNN_STATUS_SUCCESS)
        return 0;
    fprintf(stderr, "%s: %s\n", call, cudnnGetErrorString(status));
    return 1;
}

/* Returns 0 on success, else prints the error. The runtime call creates the GPU's context, which cuDNN needs. */
static int take_gpu(cudnnBackendDescriptor_t device, const char *name)
{
    const int32_t number = (int32_t)atoi(name + strlen("cuda:"));
    cudaError_t error = cudaSetDevice(number);
    if (!error)
        error = cudaFree(NULL);
    if (error) {
        fprintf(stderr, "%s: %s\n", name, cudaGetErrorString(error));
        return 1;
    }
    return say(cudnnBackendSetAttribute(device, CUDNN_ATTR_DEVICEPROP_DEVICE_ID, CUDNN_TYPE_INT32, 1, &number),
               "cudnnBackendSetAttribute of a device's number");
}

static int take_file(cudnnBackendDescriptor_t device, const char *path)
{
    static char json[MOST];
    FILE *const file = fopen(path, "r");
    if (!file) {
        perror(path);
        return 1;
    }
    const size_t length = fread(json, 1, sizeof json - 1, file);
    fclose(file);
    return say(cudnnBackendSetAttribute(device, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
                                        (int64_t)length + 1, json),
               "cudnnBackendSetAttribute of a device's JSON");
}

/* Returns 0 if the file was written completely. */
static int write_file(const char *path, const char *json)
{
    FILE *const file = fopen(path, "w");
    if (file) {
        const int said = fprintf(file, "%s\n", json) < 0;
        if (fclose(file) == 0 && !said)
            return 0;
    }
    perror(path);
    return 1;
}

/* `out` may be NULL. */
static int print(cudnnBackendDescriptor_t device, const char *out)
{
    static char json[MOST];
    int64_t count = 0;
    if (say(cudnnBackendFinalize(device), "cudnnBackendFinalize") ||
        say(cudnnBackendGetAttribute(device, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, MOST - 1,
                                     &count, json),
            "cudnnBackendGetAttribute of a device's JSON"))
        return 1;
    puts(json);
    return out ? write_file(out, json) : 0;
}

int main(int argc, char **argv)
{
    const char *const from = argc > 1 ? argv[1] : "cuda:0";
    cudnnBackendDescriptor_t device = NULL;
    if (say(cudnnBackendCreateDescriptor(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, &device), "cudnnBackendCreateDescriptor"))
        return 1;
    const int failed = (strncmp(from, "cuda:", 5) == 0 ? take_gpu(device, from) : take_file(device, from)) ||
                       print(device, argc > 2 ? argv[2] : NULL);
    (void)cudnnBackendDestroyDescriptor(device);
    return failed;
}
