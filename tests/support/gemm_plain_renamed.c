/* SPDX-License-Identifier: MIT */
/* The plain product under names of its own, so that a build with a BLAS tests it, too. */
#define gpur_cpu_sgemm plain_sgemm
#define gpur_cpu_blas_name plain_blas_name
#define gpur_cpu_blas_warning plain_blas_warning
#include "device/cpu/gemm_plain.c"
