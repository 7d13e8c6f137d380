/* SPDX-License-Identifier: MIT */
/* The kernel tables that cpu.c and cuda.cu define, in the order of GPUR_KERNEL_LIST. src/device/ launches kernels
 * through them. */
#pragma once

#include "kernels/kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

extern const char *const gpur_kernel_names[GPUR_KERNEL_COUNT];

/* Runs one block of a kernel on the CPU. There is one table for each instruction set that cpu.c is compiled for. */
typedef void (*gpur_cpu_entry)(int64_t block, int64_t blocks, const void *args);
extern const gpur_cpu_entry gpur_cpu_entries_v1[GPUR_KERNEL_COUNT];
extern const gpur_cpu_entry gpur_cpu_entries_v3[GPUR_KERNEL_COUNT]; /* x86-64-v3: AVX2, FMA */
extern const gpur_cpu_entry gpur_cpu_entries_v4[GPUR_KERNEL_COUNT]; /* x86-64-v4: AVX-512 */

/* The kernels' __global__ functions, which cudaLaunchKernelExC takes. */
extern const void *const gpur_cuda_entries[GPUR_KERNEL_COUNT];

#ifdef GPUR_RACE_CHECK
#include "kernels/target/thread.h"
/* Runs one thread of one block of a kernel in the race check. */
typedef void (*gpur_race_entry)(gpur_thread at, const void *args);
extern const gpur_race_entry gpur_race_entries[GPUR_KERNEL_COUNT];
#endif

#ifdef __cplusplus
}
#endif
