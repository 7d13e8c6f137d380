/* SPDX-License-Identifier: MIT */
/*
 * Finds and loads NVIDIA's libraries and our modules. A library is loaded explicitly, because Python wheels install it
 * outside the dynamic loader's path; a module's own dependency on it is then satisfied by the loaded copy. Search order
 * for a library: already loaded by the host program, the folder GPUREPLAY_CUDA_LIBS, the Python environment, the
 * loader's path, the folder in which it was when this library was configured.
 */
#include "device/cuda/cuda.h"

#include <dlfcn.h>
#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CUDA_MAJOR = CUDART_VERSION / 1000 };

typedef struct file_search {
    const char *file;    /* file name to look for */
    const char *package; /* for a library: its folder below nvidia/ in pip's layout */
    char tried[320];     /* folders tried so far, for the error message */
} file_search;

static void record_tried(file_search *s, const char *folder_tried)
{
    const size_t used = strlen(s->tried), room = sizeof s->tried - used;
    const int length = snprintf(s->tried + used, room, "%s%s", used ? ", " : "", folder_tried);
    if (length >= (int)room)
        memcpy(s->tried + sizeof s->tried - sizeof "...", "...", sizeof "...");
}

/* RTLD_NODELETE: a library that has CUDA state must not be unloaded while the process lives. */
static void *open_file(const char *path)
{
    return dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
}

static void *open_in(file_search *s, const char *directory)
{
    char path[PATH_MAX];
    const int length = snprintf(path, sizeof path, "%s/%s", directory, s->file);
    record_tried(s, directory);
    return length > 0 && length < (int)sizeof path ? open_file(path) : NULL;
}

static void *open_in_variable(file_search *s, const char *variable)
{
    const char *const directory = getenv(variable);
    char folder_tried[64];
    if (directory && *directory)
        return open_in(s, directory);
    snprintf(folder_tried, sizeof folder_tried, "%s (not set)", variable);
    record_tried(s, folder_tried);
    return NULL;
}

/* `pattern` is a folder with wild cards, such as python3*, because the environment's Python version is unknown. */
static void *open_in_matching(file_search *s, const char *pattern)
{
    glob_t found;
    void *library = NULL;
    if (glob(pattern, 0, NULL, &found) != 0) {
        record_tried(s, pattern);
        return NULL;
    }
    for (size_t i = 0; !library && i < found.gl_pathc; i++)
        library = open_in(s, found.gl_pathv[i]);
    globfree(&found);
    return library;
}

/* pip's layout: nvidia/cu13/lib from CUDA 13 on; nvidia/cublas/lib and the like before, and for some libraries
 * still. */
static void *open_in_site_packages(file_search *s, const char *site_packages)
{
    char pattern[PATH_MAX];
    void *library = NULL;
    if (snprintf(pattern, sizeof pattern, "%s/nvidia/cu%d/lib", site_packages, CUDA_MAJOR) < (int)sizeof pattern)
        library = open_in_matching(s, pattern);
    if (library)
        return library;
    const int length = snprintf(pattern, sizeof pattern, "%s/nvidia/%s/lib", site_packages, s->package);
    return length < (int)sizeof pattern ? open_in_matching(s, pattern) : NULL;
}

/* Finds the folder of the shared library or program that contains this code. Returns 0 if it cannot be determined. */
static int library_folder(char folder[PATH_MAX])
{
    Dl_info here;
    if (!dladdr((const void *)&gpur_backend_cuda, &here) || !here.dli_fname || !realpath(here.dli_fname, folder))
        return 0;
    *strrchr(folder, '/') = '\0';
    return 1;
}

/* Looks for wheels in a virtual or conda environment, then for conda's own package in the environment's lib folder. */
static void *open_in_environment(file_search *s, const char *variable)
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

static void *open_beside_package(file_search *s)
{
    char site_packages[PATH_MAX + sizeof "/.."], own[PATH_MAX];
    if (!library_folder(own)) /* own is site-packages/gpureplay, with libgpureplay.so */
        return NULL;
    snprintf(site_packages, sizeof site_packages, "%s/..", own);
    return open_in_site_packages(s, site_packages);
}

/* `seen` is the folder in which the library was when this one was configured. */
static void *find_library(file_search *s, const char *seen)
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
    return library ? library : open_in(s, seen);
}

static void *find_module(file_search *s)
{
    char own[PATH_MAX];
    void *module = open_in_variable(s, "GPUREPLAY_MODULE_DIR");
    if (!module && library_folder(own))
        module = open_in(s, own);
    return module ? module : open_in(s, GPUR_MODULE_DIR);
}

/* cuBLASLt, cuDNN and the modules that link them: loads the library first, then its module, then the module's table. */

enum { CUDNN_MAJOR = 9 };

/* One of NVIDIA's libraries, our module that links it, and the words for error messages. */
typedef struct library_spec {
    const char *library; /* without its major version */
    int major;
    const char *package; /* pip's folder */
    const char *seen;    /* its folder at configure time; "": not found, so the module was not built */
    const char *name, *subject, *pip, *in_use;
    const char *module, *symbol;
    int version; /* required version of the module's table */
} library_spec;

static const library_spec blas = {
    "libcublasLt.so",     CUDA_MAJOR,      "cublas",   GPUR_CUBLASLT_DIR,  "cuBLAS",
    "matrix products",    "nvidia-cublas", "cuBLASLt", GPUR_CUDAMATH_FILE, GPUR_CUDAMATH_SYMBOL,
    GPUR_CUDAMATH_VERSION};
static const library_spec dnn = {"libcudnn.so",       CUDNN_MAJOR,    "cudnn", GPUR_CUDNN_DIR,    "cuDNN",
                                 "convolutions",      "nvidia-cudnn", "cuDNN", GPUR_CUDADNN_FILE, GPUR_CUDADNN_SYMBOL,
                                 GPUR_CUDADNN_VERSION};

static gpur_status load_library(const library_spec *w, gpur_cuda_library *l)
{
    char file[32];
    file_search s = {.file = file, .package = w->package};
    snprintf(file, sizeof file, "%s.%d", w->library, w->major);
    l->library = find_library(&s, w->seen);
    if (l->library)
        return GPUR_OK;
    const char *const words = dlerror();
    return gpur_fail(GPUR_UNAVAILABLE,
                     "%s was not found. Searched for %s in %s and the loader's own path (%.96s). Install CUDA %d's "
                     "%s, or set GPUREPLAY_CUDA_LIBS to its folder",
                     w->name, file, s.tried, words ? words : "no reason given", CUDA_MAJOR, w->name);
}

static gpur_status load_module(const library_spec *w, gpur_cuda_library *l)
{
    file_search s = {.file = w->module};
    l->module = find_module(&s);
    if (l->module)
        return GPUR_OK;
    const char *const words = dlerror();
    return gpur_fail(GPUR_UNAVAILABLE,
                     "the module for %s was not found. Searched for %s in %s (%.96s). It is installed beside "
                     "libgpureplay.so; GPUREPLAY_MODULE_DIR can name another folder",
                     w->subject, s.file, s.tried, words ? words : "no reason given");
}

/* If the library was not found at configure time, the module was not built, and searching for it is pointless. */
static gpur_status check_build(const library_spec *w)
{
    if (*w->seen)
        return GPUR_OK;
    return gpur_fail(GPUR_UNAVAILABLE,
                     "this build has no %s by %s on CUDA, since %s was not found when it was configured: install CUDA "
                     "%d's %s (pip: %s), configure with -DGPUREPLAY_CUDA=ON and build again; \"cpu\" trains everywhere",
                     w->subject, w->name, w->in_use, CUDA_MAJOR, w->name, w->pip);
}

typedef const gpur_cuda_module *(*table_fn)(void);

static gpur_status find_table(const library_spec *w, gpur_cuda_library *l)
{
    table_fn get = NULL;
    void *const symbol = dlsym(l->module, w->symbol);
    memcpy(&get, &symbol, sizeof get); /* POSIX: both kinds of pointer look the same; C has no cast between them */
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

static gpur_status load(const library_spec *w, gpur_cuda_library *l)
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

/* If the library is loaded but cannot be opened, it stays loaded for the next try. */
static gpur_status open_library(const library_spec *w, gpur_cuda_library *l)
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
        const enum cudaStreamCaptureMode mode = gpur_cuda_relax(); /* closing the library waits for the device */
        library->table->close(library->handle);
        gpur_cuda_unrelax(mode);
    }
    unload(library);
}
