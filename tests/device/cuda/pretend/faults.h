/* SPDX-License-Identifier: MIT */
/*
 * The CUDA runtime with faults: every call of the library's is counted, and the nth of them fails without being made.
 * With `pretend`, none is made: what stands in its place has host memory for device memory, carries everything out at
 * once, runs the CPU's kernels, and refuses what CUDA refuses amid a capture; so all of the library's CUDA code but its
 * kernels and the libraries runs on a machine without a GPU.
 *
 * Faults are for programs of one thread; any number may use what is pretended.
 */
#ifndef GPUR_DEVICE_CUDA_PRETEND_FAULTS_H
#define GPUR_DEVICE_CUDA_PRETEND_FAULTS_H

#include <cuda_runtime_api.h>
#include <stdint.h>

typedef struct cuda_faults {
    int pretend;
    const char *only; /* counts calls of this name alone; NULL: every one */
    int64_t fail_at;  /* the nth call counted; 0: none */
    int for_ever;     /* 1: and all that come after it, whatever their name */
    cudaError_t error;

    int64_t calls;      /* counted so far */
    const char *failed; /* the first that was failed, or NULL */

    void (*heard)(const char *name); /* told of each call; NULL: nobody */
} cuda_faults;

extern cuda_faults faults;

/* Counting begins anew, and of what comes the nth fails. `only` and nth may be NULL and 0. */
void faults_begin(const char *only, int64_t nth, cudaError_t error, int for_ever);
/* Nothing fails any more. */
void faults_end(void);

#endif
