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
    const char *name, *subject, *pip;
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
                           "libgpureplay_cudadnn.so",
                           GPUR_CUDADNN_SYMBOL,
                           GPUR_CUDADNN_VERSION};

/* Both held open by dlopen, and what the module's function returned. */
typedef struct loaded {
    const void *table;
    void *library, *module;
} loaded;

static gpur_status load_library(const wanted *w, loaded *l)
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

static gpur_status load_module(const wanted *w, loaded *l)
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
                     w->subject, w->name, w == &blas ? "cuBLASLt" : "cuDNN", CUDA_MAJOR, w->name, w->pip);
}

/* Every table begins with its version. */
typedef const int32_t *(*table_fn)(void);

static gpur_status find_table(const wanted *w, loaded *l)
{
    table_fn get = NULL;
    void *const symbol = dlsym(l->module, w->symbol);
    memcpy(&get, &symbol, sizeof get); /* POSIX has object and function pointers alike; C has no cast for it */
    const int32_t *const version = get ? get() : NULL;
    if (!version || *version != w->version)
        return gpur_fail(GPUR_UNAVAILABLE, "%s is of interface %d; wanted %d: install it and libgpureplay.so together",
                         w->module, version ? (int)*version : 0, w->version);
    l->table = version;
    return GPUR_OK;
}

static void unload(const loaded *l)
{
    if (l->module)
        dlclose(l->module);
    if (l->library)
        dlclose(l->library);
}

/* A failure leaves nothing loaded. */
static gpur_status load(const wanted *w, loaded *l)
{
    const loaded none = {NULL, NULL, NULL};
    *l = none;
    gpur_status status = check_build(w);
    if (status == GPUR_OK)
        status = load_library(w, l);
    if (status == GPUR_OK)
        status = load_module(w, l);
    if (status == GPUR_OK)
        status = find_table(w, l);
    if (status == GPUR_OK)
        return GPUR_OK;
    unload(l);
    *l = none;
    return status;
}

gpur_status gpur_math_library_load(gpur_math_library *library)
{
    loaded l;
    const gpur_status status = load(&blas, &l);
    library->table = (const gpur_cudamath *)l.table;
    library->blas = l.library, library->module = l.module;
    return status;
}

void gpur_math_library_unload(gpur_math_library *library)
{
    const gpur_math_library none = {NULL, NULL, NULL};
    const loaded l = {NULL, library->blas, library->module};
    unload(&l);
    *library = none;
}

gpur_status gpur_dnn_library_load(gpur_dnn_library *library)
{
    loaded l;
    const gpur_status status = load(&dnn, &l);
    library->table = (const gpur_cudadnn *)l.table;
    library->dnn = l.library, library->module = l.module;
    return status;
}

void gpur_dnn_library_unload(gpur_dnn_library *library)
{
    const gpur_dnn_library none = {NULL, NULL, NULL};
    const loaded l = {NULL, library->dnn, library->module};
    unload(&l);
    *library = none;
}
