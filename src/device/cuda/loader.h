/* SPDX-License-Identifier: MIT */
/*
 * Where NVIDIA's libraries and our modules are looked for. A library by hand, since a Python environment keeps it where
 * the loader does not look; a module's own need of it is then met by what is loaded already. The order is from the
 * nearest to the farthest: loaded by the host program, named by it, in its Python environment, known to the loader,
 * seen when this library was configured.
 */
#ifndef GPUR_DEVICE_CUDA_LOADER_H
#define GPUR_DEVICE_CUDA_LOADER_H

typedef struct gpur_cuda_search {
    const char *file;    /* that is looked for */
    const char *package; /* of a library: pip's folder below nvidia/ */
    char places[320];    /* tried so far, for the error text */
} gpur_cuda_search;

/* What dlopen says, or NULL. `seen` is the folder in which the library was when this one was configured. */
void *gpur_cuda_find_library(gpur_cuda_search *search, const char *seen);
void *gpur_cuda_find_module(gpur_cuda_search *search);

#endif
