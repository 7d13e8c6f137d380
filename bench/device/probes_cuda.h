/* SPDX-License-Identifier: MIT */
/* What the CUDA files of the probes share. */
#ifndef BENCH_DEVICE_PROBES_CUDA_H
#define BENCH_DEVICE_PROBES_CUDA_H

#include "bench/device/probes.h"
#include "device/cuda/cuda.h"

/* __global__ functions, in the order of PROBE_LIST. */
extern const void *const probe_entries[PROBE_COUNT];

/* GPUR_UNAVAILABLE where the device is no CUDA device. */
gpur_status probe_needs_cuda(const gpur_device *device);

/* With CUDA's words, GPUR_UNAVAILABLE for what is not there, else GPUR_DEVICE_ERROR: whatever one probe fails on, the
 * other figures are wanted all the same. An error that the device does not recover from shows at the next call of the
 * library. */
gpur_status probe_status(cudaError_t error, const char *call);

/* The same behind gpur_cuda_enter, with the caller's device put back. */
gpur_status probe_leave(int before, cudaError_t error, const char *call);

/* A launch of a probe of so many blocks; `together`: all of them at once. */
gpur_status probe_launch(gpur_stream *stream, int probe, gpur_grid grid, int together, const void *args);

#endif
