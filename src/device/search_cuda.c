/* SPDX-License-Identifier: MIT */
#include "device/search_cuda.h"
#include "device/device_cuda.h"

#include <dlfcn.h>
#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CUDA_MAJOR = CUDART_VERSION / 1000 };

static void note(gpur_cuda_search *s, const char *place)
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

static void *open_in(gpur_cuda_search *s, const char *directory)
{
    char path[PATH_MAX];
    const int length = snprintf(path, sizeof path, "%s/%s", directory, s->file);
    note(s, directory);
    return length > 0 && length < (int)sizeof path ? open_file(path) : NULL;
}

static void *open_in_variable(gpur_cuda_search *s, const char *variable)
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
static void *open_in_matching(gpur_cuda_search *s, const char *pattern)
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

/* pip's layout: nvidia/cu13/lib from CUDA 13 on, nvidia/cublas/lib and the like before, and for some libraries still.
 */
static void *open_in_site_packages(gpur_cuda_search *s, const char *site_packages)
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
static void *open_in_environment(gpur_cuda_search *s, const char *variable)
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

static void *open_beside_package(gpur_cuda_search *s)
{
    char site_packages[PATH_MAX + sizeof "/.."], own[PATH_MAX];
    if (!own_folder(own)) /* site-packages/gpureplay/libgpureplay.so */
        return NULL;
    snprintf(site_packages, sizeof site_packages, "%s/..", own);
    return open_in_site_packages(s, site_packages);
}

void *gpur_cuda_find_library(gpur_cuda_search *s, const char *seen)
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

void *gpur_cuda_find_module(gpur_cuda_search *s)
{
    char own[PATH_MAX];
    void *module = open_in_variable(s, "GPUREPLAY_MODULE_DIR");
    if (!module && own_folder(own))
        module = open_in(s, own);
    return module ? module : open_in(s, GPUR_MODULE_DIR);
}
