/* SPDX-License-Identifier: MIT */
/* Fakes of the CUDA functions that open a device and launch kernels, with answers as on GPUs of several kinds. The
 * linker gives them to the library in place of CUDA's (see cuda_launches.cmake), so that a test sees what the library
 * requests. Nothing runs; pretend.h has a fake that does. */
#ifndef GPUR_DEVICE_CUDA_PRETEND_ANSWERS_H
#define GPUR_DEVICE_CUDA_PRETEND_ANSWERS_H

#include "device/cuda/cuda.h"

/* Maximum threads per block: of meet_probe, and of window_set, which stands for a kernel with a small limit. */
enum { ANSWERS_MEET_THREADS = 512, ANSWERS_SMALL_THREADS = 128 };

typedef struct gpu_kind {
    int major, multiprocessors, cooperative;
    int largest_cluster; /* in blocks */
    int nonportable;     /* 1: clusters of more than 8 blocks can be enabled */
    int blocks_each;     /* resident blocks per multiprocessor of a kernel with a grid sync */
    int ptx;             /* PTX version that the kernels were compiled for */
} gpu_kind;

/* Applies from now on, so it must be called before the device is opened. */
void answer_as(gpu_kind gpu);

/* The last launch. A test may set `attributes` beforehand, to detect that there was a launch. */
typedef struct seen_launch {
    unsigned blocks, threads, attributes;
    cudaLaunchAttribute attribute; /* the first one, if any */
} seen_launch;
extern seen_launch launched;

#endif
