/* SPDX-License-Identifier: MIT */
/* gpur_build_info: what this library was built with, as one text that the preprocessor assembles.
 * GpureplayLibrary.cmake defines the values. */
#include "base/status.h"

#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)

#define VERSION TEXT(GPUR_VERSION_MAJOR) "." TEXT(GPUR_VERSION_MINOR) "." TEXT(GPUR_VERSION_PATCH)

#if defined(__clang__)
#define COMPILER "clang " __clang_version__
#elif defined(__GNUC__)
#define COMPILER "gcc " __VERSION__
#else
#define COMPILER "unknown"
#endif

#ifdef GPUR_BUILD_CUDA
#define CUDA GPUR_BUILD_CUDA
#else
#define CUDA "not built; install the CUDA toolkit and configure with -DGPUREPLAY_CUDA=ON"
#endif

#ifdef GPUR_HAS_BLAS
#define BLAS "OpenBLAS"
#elif defined(GPUR_HAS_DNNL)
#define BLAS "oneDNN"
#else
#define BLAS "none, matrix products on the CPU are slow; install libopenblas-openmp-dev and configure again"
#endif

#ifdef GPUR_HAS_DNNL
#define DNNL "oneDNN"
#else
#define DNNL "none, convolutions on the CPU go by matrix products; install libdnnl-dev and configure again"
#endif

#ifdef GPUR_HAS_FILES
#define FILES "cJSON and xxHash"
#else
#define FILES "none, no saving and loading; install libcjson-dev and libxxhash-dev and configure again"
#endif

#ifdef GPUR_HAS_ZSTD
#define ZSTD "Zstandard"
#else
#define ZSTD "none, blocks are not compressed; install libzstd-dev and configure again"
#endif

#if defined(GPUR_RACE_CHECK)
#define KERNELS "race check"
#elif defined(GPUR_HAS_CPU_VARIANTS)
#define KERNELS "baseline x86-64-v3 x86-64-v4"
#else
#define KERNELS "baseline"
#endif

const char *gpur_build_info(void)
{
    return "version: " VERSION "\n"
           "compiler: " COMPILER "\n"
           "cuda: " CUDA "\n"
           "blas: " BLAS "\n"
           "dnnl: " DNNL "\n"
           "files: " FILES "\n"
           "zstd: " ZSTD "\n"
           "cpu kernels: " KERNELS "\n";
}
