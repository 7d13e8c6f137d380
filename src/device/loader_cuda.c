/* SPDX-License-Identifier: MIT */
/*
 * Finds cuBLASLt and the module that links it. cuBLASLt first, and by hand, since a Python environment keeps it where
 * the loader does not look; the module's own need of it is then met by what is loaded already. The order is from the
 * nearest to the farthest: loaded by the host program, named by it, in its Python environment, known to the loader,
 * seen when this library was configured.
 */
#include "device/device_cuda.h"

#include <dlfcn.h>
#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BLAS_FILE "libcublasLt.so.%d"
#define MODULE_FILE "libgpureplay_cudamath.so"
enum { CUDA_MAJOR = CUDART_VERSION / 1000 };

/* The places tried so far, for the error text. */
typedef struct search {
    const char *file;
    char places[320];
} search;

static void note(search *s, const char *place)
{
    const size_t used = strlen(s->places), room = sizeof s->places - used;
    const int length = snprintf(s->places + used, room, "%s%s", used ? ", " : "", place);
    if (length >= (int)room)
        memcpy(s->places + sizeof s->places - sizeof "...", "...", sizeof "...");
}

/* Nothing that has CUDA state may be unloaded while the process lives, so RTLD_NODELETE. */
static void *open_file(const char *path)
{
    return dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
}

static void *open_in(search *s, const char *directory)
{
    char path[PATH_MAX];
    const int length = snprintf(path, sizeof path, "%s/%s", directory, s->file);
    note(s, directory);
    return length > 0 && length < (int)sizeof path ? open_file(path) : NULL;
}

static void *open_in_variable(search *s, const char *variable)
{
    const char *const directory = getenv(variable);
    char place[64];
    if (directory && *directory)
        return open_in(s, directory);
    snprintf(place, sizeof place, "%s (not set)", variable);
    note(s, place);
    return NULL;
}

/* `pattern` names a folder with wild cards, as python3* in an environment whose version we do not know. */
static void *open_in_matching(search *s, const char *pattern)
{
    glob_t found;
    void *library = NULL;
    if (glob(pattern, 0, NULL, &found) != 0) {
        note(s, pattern);
        return NULL;
    }
    for (size_t i = 0; !library && i < found.gl_pathc; i++)
        library = open_in(s, found.gl_pathv[i]);
    globfree(&found);
    return library;
}

/* pip's layout: nvidia/cu13/lib from CUDA 13 on, nvidia/cublas/lib before. */
static void *open_in_site_packages(search *s, const char *site_packages)
{
    static const char *const layouts[] = {"nvidia/cu%d/lib", "nvidia/cublas/lib"};
    void *library = NULL;
    for (size_t i = 0; !library && i < sizeof layouts / sizeof *layouts; i++) {
        char folder[32], pattern[PATH_MAX];
        snprintf(folder, sizeof folder, layouts[i], CUDA_MAJOR);
        if (snprintf(pattern, sizeof pattern, "%s/%s", site_packages, folder) < (int)sizeof pattern)
            library = open_in_matching(s, pattern);
    }
    return library;
}

/* The folder of the library, or of the program, that this code was linked into; 0 when it cannot be told. */
static int own_folder(char folder[PATH_MAX])
{
    Dl_info here;
    if (!dladdr((const void *)&gpur_backend_cuda, &here) || !here.dli_fname || !realpath(here.dli_fname, folder))
        return 0;
    *strrchr(folder, '/') = '\0';
    return 1;
}

/* Wheels in a virtual environment; in a conda environment wheels, or conda's own package in its lib. */
static void *open_in_environment(search *s, const char *variable)
{
    char folder[PATH_MAX];
    const char *const environment = getenv(variable);
    if (!environment || !*environment || strlen(environment) > sizeof folder - sizeof "/lib/python3*/site-packages")
        return NULL;
    snprintf(folder, sizeof folder, "%s/lib/python3*/site-packages", environment);
    void *const library = open_in_site_packages(s, folder);
    snprintf(folder, sizeof folder, "%s/lib", environment);
    return library ? library : open_in(s, folder);
}

static void *open_beside_package(search *s)
{
    char site_packages[PATH_MAX + sizeof "/.."], own[PATH_MAX];
    if (!own_folder(own)) /* site-packages/gpureplay/libgpureplay.so */
        return NULL;
    snprintf(site_packages, sizeof site_packages, "%s/..", own);
    return open_in_site_packages(s, site_packages);
}

static void *find_blas(search *s)
{
    void *library = dlopen(s->file, RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE);
    if (!library)
        library = open_in_variable(s, "GPUREPLAY_CUDA_LIBS");
    if (!library)
        library = open_in_environment(s, "VIRTUAL_ENV");
    if (!library)
        library = open_in_environment(s, "CONDA_PREFIX");
    if (!library)
        library = open_beside_package(s);
    if (!library)
        library = open_file(s->file);
    return library ? library : open_in(s, GPUR_CUBLASLT_DIR);
}

static gpur_status load_blas(gpur_math_library *library)
{
    char file[32];
    search s = {.file = file};
    snprintf(file, sizeof file, BLAS_FILE, CUDA_MAJOR);
    library->blas = find_blas(&s);
    if (library->blas)
        return GPUR_OK;
    const char *const words = dlerror();
    return gpur_fail(GPUR_UNAVAILABLE,
                     "cuBLAS was not found. Searched for %s in %s and the loader's own path (%.96s). Install CUDA %d's "
                     "cuBLAS, or set GPUREPLAY_CUDA_LIBS to its folder",
                     file, s.places, words ? words : "no reason given", CUDA_MAJOR);
}

static gpur_status load_module(gpur_math_library *library)
{
    search s = {.file = MODULE_FILE};
    char own[PATH_MAX];
    library->module = open_in_variable(&s, "GPUREPLAY_MODULE_DIR");
    if (!library->module && own_folder(own))
        library->module = open_in(&s, own);
    if (!library->module)
        library->module = open_in(&s, GPUR_MODULE_DIR);
    if (library->module)
        return GPUR_OK;
    const char *const words = dlerror();
    return gpur_fail(
        GPUR_UNAVAILABLE,
        "the module for matrix products was not found. Searched for %s in %s (%.96s). It is installed beside "
        "libgpureplay.so; GPUREPLAY_MODULE_DIR can name another folder",
        s.file, s.places, words ? words : "no reason given");
}

/* A build that had no cuBLASLt has made no module, and no search would find one. */
static gpur_status check_build(void)
{
    if (sizeof GPUR_CUBLASLT_DIR > 1)
        return GPUR_OK;
    return gpur_fail(GPUR_UNAVAILABLE,
                     "this build has no matrix products on CUDA, since cuBLASLt was not found when it was configured: "
                     "install CUDA %d's cuBLAS (pip: nvidia-cublas), configure with -DGPUREPLAY_CUDA=ON and build "
                     "again; \"cpu\" trains everywhere",
                     CUDA_MAJOR);
}

static gpur_status find_table(gpur_math_library *library)
{
    gpur_cudamath_table_fn get = NULL;
    void *const symbol = dlsym(library->module, GPUR_CUDAMATH_SYMBOL);
    memcpy(&get, &symbol, sizeof get); /* POSIX has object and function pointers alike; C has no cast for it */
    const gpur_cudamath *const table = get ? get() : NULL;
    if (!table || table->version != GPUR_CUDAMATH_VERSION)
        return gpur_fail(GPUR_UNAVAILABLE, "%s is of interface %d; wanted %d: install it and libgpureplay.so together",
                         MODULE_FILE, table ? (int)table->version : 0, GPUR_CUDAMATH_VERSION);
    library->table = table;
    return GPUR_OK;
}

gpur_status gpur_math_library_load(gpur_math_library *library)
{
    const gpur_math_library none = {NULL, NULL, NULL};
    *library = none;
    gpur_status status = check_build();
    if (status == GPUR_OK)
        status = load_blas(library);
    if (status == GPUR_OK)
        status = load_module(library);
    if (status == GPUR_OK)
        status = find_table(library);
    if (status != GPUR_OK)
        gpur_math_library_unload(library);
    return status;
}

void gpur_math_library_unload(gpur_math_library *library)
{
    const gpur_math_library none = {NULL, NULL, NULL};
    if (library->module)
        dlclose(library->module);
    if (library->blas)
        dlclose(library->blas);
    *library = none;
}
