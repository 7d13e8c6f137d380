/* SPDX-License-Identifier: MIT */
/*
 * Finds and loads NVIDIA's libraries and our modules. A library is loaded explicitly, because Python wheels install it
 * outside the dynamic loader's path; a module's own dependency on it is then satisfied by the loaded copy. Search order
 * for a library: already loaded by the host program, the folder GPUREPLAY_CUDA_LIBS, the Python environment, the
 * loader's path, the folder in which it was when this library was configured.
 */
#ifndef GPUR_DEVICE_CUDA_LOADER_H
#define GPUR_DEVICE_CUDA_LOADER_H

typedef struct gpur_cuda_search {
    const char *file;    /* file name to look for */
    const char *package; /* for a library: its folder below nvidia/ in pip's layout */
    char places[320];    /* folders tried so far, for the error message */
} gpur_cuda_search;

/* Return dlopen's handle, or NULL. `seen` is the folder in which the library was when this one was configured. */
void *gpur_cuda_find_library(gpur_cuda_search *search, const char *seen);
void *gpur_cuda_find_module(gpur_cuda_search *search);

#endif
