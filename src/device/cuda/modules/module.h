/* SPDX-License-Identifier: MIT */
/*
 * Common interface of the modules libgpureplay_cudamath and libgpureplay_cudadnn, and what the core stores for each:
 * NVIDIA's library that the module links, the module itself, and the library's handle for one device.
 */
#pragma once

#include "base/status.h"

#include <stdint.h>

typedef gpur_status (*gpur_fail_fn)(gpur_status status, const char *format, ...) GPUR_PRINTF(2, 3);

/* The first member of every module's table. */
typedef struct gpur_cuda_module {
    int32_t version;                  /* of the table; the core refuses any other than its own */
    int64_t (*library_version)(void); /* version of the loaded library: 10000 major + 100 minor + patch */
    gpur_status (*open)(void **handle, gpur_fail_fn fail);
    void (*close)(void *handle);
} gpur_cuda_module;

typedef struct gpur_cuda_library {
    const gpur_cuda_module *table; /* NULL: not loaded */
    void *library, *module;        /* handles of dlopen */
    void *handle;                  /* NULL: not opened */
    char name[48];                 /* "cuBLASLt 13.1.0"; "" before opening */
} gpur_cuda_library;

/* loader.c. _load requires a library that is not loaded, and leaves it unloaded on failure. _open loads the library if
 * necessary and creates a handle on the current device; it does nothing if the library is open already. _close accepts
 * any state, and returns the library to the state before loading. */
gpur_status gpur_math_library_load(gpur_cuda_library *library);
gpur_status gpur_dnn_library_load(gpur_cuda_library *library);
gpur_status gpur_math_library_open(gpur_cuda_library *library);
gpur_status gpur_dnn_library_open(gpur_cuda_library *library);
void gpur_cuda_library_close(gpur_cuda_library *library);
