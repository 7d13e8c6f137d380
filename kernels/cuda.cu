/* SPDX-License-Identifier: MIT */
/* Entry file of the CUDA kernels, the only file of the library that nvcc compiles. */
#include "kernels/all.h"
#include "kernels/entries.h"

#define ENTRY(name) (const void *)gpur_##name##_cuda_entry,
extern "C" const void *const gpur_cuda_entries[GPUR_KERNEL_COUNT] = {GPUR_KERNEL_LIST(ENTRY)};
