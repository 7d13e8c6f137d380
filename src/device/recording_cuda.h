/* SPDX-License-Identifier: MIT */
/* What a recording holds, by kind of graph node: a step must need no host function and allocate nothing. */
#ifndef GPUR_RECORDING_CUDA_H
#define GPUR_RECORDING_CUDA_H

#include "device/device.h"

typedef struct gpur_cuda_nodes {
    int64_t kernels, copies, fills, hosts, others;
} gpur_cuda_nodes;

/* Of the graph of one repetition. The recording must be of a CUDA device. */
gpur_status gpur_cuda_recording_count(const gpur_recording *recording, gpur_cuda_nodes *nodes);

#endif
