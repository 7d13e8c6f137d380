/* SPDX-License-Identifier: MIT */
/*
 * The CUDA runtime with injected faults: every runtime call of the library is counted, and the nth fails without being
 * made. With `pretend`, no call reaches CUDA: the fake runtime uses host memory as device memory, runs all work
 * immediately, runs the CPU's kernels, and refuses what CUDA refuses during a capture. So the library's whole CUDA
 * code, except its kernels and NVIDIA's libraries, runs on a machine without a GPU.
 *
 * Injected faults are for single-threaded programs; any number of threads may use the fake runtime.
 */
#ifndef GPUR_DEVICE_CUDA_PRETEND_FAULTS_H
#define GPUR_DEVICE_CUDA_PRETEND_FAULTS_H

#include <cuda_runtime_api.h>
#include <stdint.h>

typedef struct cuda_faults {
    int pretend;
    const char *only; /* counts only calls of this name; NULL: all calls */
    int64_t fail_at;  /* number of the counted call that fails; 0: none */
    int for_ever;     /* 1: all later calls fail, too, whatever their name */
    cudaError_t error;

    int64_t calls;      /* counted so far */
    const char *failed; /* name of the first call that failed, or NULL */

    void (*heard)(const char *name); /* called with the name of each call; may be NULL */
} cuda_faults;

extern cuda_faults faults;

/* Restarts counting; the nth counted call will fail. `only` may be NULL and nth 0. */
void faults_begin(const char *only, int64_t nth, cudaError_t error, int for_ever);
/* No call fails from now on. */
void faults_end(void);

#endif
