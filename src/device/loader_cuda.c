/* SPDX-License-Identifier: MIT */
/* cuBLASLt and cuDNN, and the modules that link them: each library first, then its module, then the module's table. */
#include "device/device_cuda.h"
#include "device/search_cuda.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

enum { CUDA_MAJOR = CUDART_VERSION / 1000, CUDNN_MAJOR = 9 };

/* A library of NVIDIA's, our module that links it, and what they are for. */
typedef struct wanted {
    const char *library; /* without its major version */
    int major;
    const char *package; /* pip's folder */
    const char *seen;    /* where it was when this library was configured; "": nowhere, so there is no module */
    const char *name, *subject, *pip, *in_use;
    const char *module, *symbol;
    int version; /* of the module's table */
} wanted;

static const wanted blas = {"libcublasLt.so",
                            CUDA_MAJOR,
                            "cublas",
                            GPUR_CUBLASLT_DIR,
                            "cuBLAS",
                            "matrix products",
                            "nvidia-cublas",
                            "cuBLASLt",
                            "libgpureplay_cudamath.so",
                            GPUR_CUDAMATH_SYMBOL,
                            GPUR_CUDAMATH_VERSION};
static const wanted dnn = {"libcudnn.so",
                           CUDNN_MAJOR,
                           "cudnn",
                           GPUR_CUDNN_DIR,
                           "cuDNN",
                           "convolutions",
                           "nvidia-cudnn",
                           "cuDNN",
                           "libgpureplay_cudadnn.so",
                           GPUR_CUDADNN_SYMBOL,
                           GPUR_CUDADNN_VERSION};

static gpur_status load_library(const wanted *w, gpur_cuda_library *l)
{
    char file[32];
    gpur_cuda_search s = {.file = file, .package = w->package};
    snprintf(file, sizeof file, "%s.%d", w->library, w->major);
    l->library = gpur_cuda_find_library(&s, w->seen);
    if (l->library)
        return GPUR_OK;
    const char *const words = dlerror();
    return gpur_fail(GPUR_UNAVAILABLE,
                     "%s was not found. Searched for %s in %s and the loader's own path (%.96s). Install CUDA %d's "
                     "%s, or set GPUREPLAY_CUDA_LIBS to its folder",
                     w->name, file, s.places, words ? words : "no reason given", CUDA_MAJOR, w->name);
}

static gpur_status load_module(const wanted *w, gpur_cuda_library *l)
{
    gpur_cuda_search s = {.file = w->module};
    l->module = gpur_cuda_find_module(&s);
    if (l->module)
        return GPUR_OK;
    const char *const words = dlerror();
    return gpur_fail(GPUR_UNAVAILABLE,
                     "the module for %s was not found. Searched for %s in %s (%.96s). It is installed beside "
                     "libgpureplay.so; GPUREPLAY_MODULE_DIR can name another folder",
                     w->subject, s.file, s.places, words ? words : "no reason given");
}

/* A build that had no such library has made no module, and no search would find one. */
static gpur_status check_build(const wanted *w)
{
    if (*w->seen)
        return GPUR_OK;
    return gpur_fail(GPUR_UNAVAILABLE,
                     "this build has no %s by %s on CUDA, since %s was not found when it was configured: install CUDA "
                     "%d's %s (pip: %s), configure with -DGPUREPLAY_CUDA=ON and build again; \"cpu\" trains everywhere",
                     w->subject, w->name, w->in_use, CUDA_MAJOR, w->name, w->pip);
}

typedef const gpur_cuda_module *(*table_fn)(void);

static gpur_status find_table(const wanted *w, gpur_cuda_library *l)
{
    table_fn get = NULL;
    void *const symbol = dlsym(l->module, w->symbol);
    memcpy(&get, &symbol, sizeof get); /* POSIX has object and function pointers alike; C has no cast for it */
    const gpur_cuda_module *const table = get ? get() : NULL;
    if (!table || table->version != w->version)
        return gpur_fail(GPUR_UNAVAILABLE, "%s is of interface %d; wanted %d: install it and libgpureplay.so together",
                         w->module, table ? (int)table->version : 0, w->version);
    l->table = table;
    return GPUR_OK;
}

static void unload(gpur_cuda_library *l)
{
    if (l->module)
        dlclose(l->module);
    if (l->library)
        dlclose(l->library);
    memset(l, 0, sizeof *l);
}

static gpur_status load(const wanted *w, gpur_cuda_library *l)
{
    memset(l, 0, sizeof *l);
    gpur_status status = check_build(w);
    if (status == GPUR_OK)
        status = load_library(w, l);
    if (status == GPUR_OK)
        status = load_module(w, l);
    if (status == GPUR_OK)
        status = find_table(w, l);
    if (status != GPUR_OK)
        unload(l);
    return status;
}

/* A library that was loaded and not opened stays loaded. */
static gpur_status open_library(const wanted *w, gpur_cuda_library *l)
{
    if (l->handle)
        return GPUR_OK;
    if (!l->table)
        GPUR_TRY(load(w, l));
    const enum cudaStreamCaptureMode mode = gpur_cuda_relax();
    const gpur_status status = l->table->open(&l->handle, gpur_fail);
    gpur_cuda_unrelax(mode);
    GPUR_TRY(status);
    const int version = (int)l->table->library_version();
    snprintf(l->name, sizeof l->name, "%s %d.%d.%d", w->in_use, version / 10000, version / 100 % 100, version % 100);
    return GPUR_OK;
}

gpur_status gpur_math_library_load(gpur_cuda_library *library)
{
    return load(&blas, library);
}

gpur_status gpur_dnn_library_load(gpur_cuda_library *library)
{
    return load(&dnn, library);
}

gpur_status gpur_math_library_open(gpur_cuda_library *library)
{
    return open_library(&blas, library);
}

gpur_status gpur_dnn_library_open(gpur_cuda_library *library)
{
    return open_library(&dnn, library);
}

void gpur_cuda_library_close(gpur_cuda_library *library)
{
    if (library->handle) {
        const enum cudaStreamCaptureMode mode = gpur_cuda_relax(); /* closing waits for the device */
        library->table->close(library->handle);
        gpur_cuda_unrelax(mode);
    }
    unload(library);
}
