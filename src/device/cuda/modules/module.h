/* SPDX-License-Identifier: MIT */
/*
 * What the modules libgpureplay_cudamath and libgpureplay_cudadnn have in common, and how the core holds one: the
 * library of NVIDIA's that it links, the module, and a handle of the library for one device.
 */
#ifndef GPUR_DEVICE_CUDA_MODULES_MODULE_H
#define GPUR_DEVICE_CUDA_MODULES_MODULE_H

#include "base/status.h"

#include <stdint.h>

typedef gpur_status (*gpur_fail_fn)(gpur_status status, const char *format, ...) GPUR_PRINTF(2, 3);

/* What the table of each module begins with. */
typedef struct gpur_cuda_module {
    int32_t version;                  /* of the table; the core refuses another one than it knows */
    int64_t (*library_version)(void); /* of the library in use: 10000 major + 100 minor + patch */
    gpur_status (*open)(void **handle, gpur_fail_fn fail);
    void (*close)(void *handle);
} gpur_cuda_module;

typedef struct gpur_cuda_library {
    const gpur_cuda_module *table; /* NULL: not loaded */
    void *library, *module;        /* of dlopen */
    void *handle;                  /* NULL: not opened */
    char name[48];                 /* "cuBLASLt 13.1.0"; "" before it was opened */
} gpur_cuda_library;

/* loader_cuda.c. Loading wants one that is not loaded; a failure leaves it so. Opening loads what is not loaded yet,
 * and makes a handle of the current device; it takes one that is open. Closing takes one in any state, and leaves it
 * as it was before it was loaded. */
gpur_status gpur_math_library_load(gpur_cuda_library *library);
gpur_status gpur_dnn_library_load(gpur_cuda_library *library);
gpur_status gpur_math_library_open(gpur_cuda_library *library);
gpur_status gpur_dnn_library_open(gpur_cuda_library *library);
void gpur_cuda_library_close(gpur_cuda_library *library);

#endif
