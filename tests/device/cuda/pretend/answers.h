/* SPDX-License-Identifier: MIT */
/* CUDA's answers as they would be on GPUs of several kinds: the linker gives the library these functions in place of
 * CUDA's (see cuda_launches.cmake), so that a device opens and what it asks is seen. Nothing runs; see pretend.h for
 * that. */
#ifndef GPUR_DEVICE_CUDA_PRETEND_ANSWERS_H
#define GPUR_DEVICE_CUDA_PRETEND_ANSWERS_H

#include "device/cuda/cuda.h"

/* Threads of a block: of meet_probe, and, for a kernel whose blocks are small, of window_set. */
enum { ANSWERS_MEET_THREADS = 512, ANSWERS_SMALL_THREADS = 128 };

typedef struct gpu_kind {
    int major, multiprocessors, cooperative;
    int largest_cluster; /* blocks */
    int nonportable;     /* 1: clusters of more than 8 may be allowed */
    int blocks_each;     /* of a kernel that meets, on a multiprocessor */
    int ptx;             /* what the kernels were compiled for */
} gpu_kind;

/* From now on: to be set before the device is opened. */
void answer_as(gpu_kind gpu);

/* The last launch. `attributes` may be set before one, to see that there was one. */
typedef struct seen_launch {
    unsigned blocks, threads, attributes;
    cudaLaunchAttribute attribute; /* the first, if there is one */
} seen_launch;
extern seen_launch launched;

#endif
