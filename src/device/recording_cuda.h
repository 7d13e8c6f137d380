/* SPDX-License-Identifier: MIT */
/* What a recording holds, by kind of graph node: a step must need no host function and allocate nothing. And how its
 * kernels follow each other. */
#ifndef GPUR_RECORDING_CUDA_H
#define GPUR_RECORDING_CUDA_H

#include "device/device.h"

typedef struct gpur_cuda_nodes {
    int64_t kernels, copies, fills, hosts, others;
} gpur_cuda_nodes;

/* Of the graph of one repetition. The recording must be of a CUDA device. */
gpur_status gpur_cuda_recording_count(const gpur_recording *recording, gpur_cuda_nodes *nodes);

/* Of the same graph: edges by which a kernel follows another dependently (gpur_device_dependent_launches).
 * GPUR_UNAVAILABLE: built with a CUDA older than 12.3, which cannot be asked. */
gpur_status gpur_cuda_recording_dependents(const gpur_recording *recording, int64_t *edges);

/* 1 where gpur_device_dependent_launches changes anything: compute capability 9.0 or later, and a CUDA that can record
 * such launches. The device must be a CUDA one. */
int gpur_cuda_knows_dependents(const gpur_device *device);

#endif
