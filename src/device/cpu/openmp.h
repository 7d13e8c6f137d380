/* SPDX-License-Identifier: MIT */
/*
 * OpenBLAS and oneDNN may be built with OpenMP and start a team of threads for a call, which then waits for all of
 * them. So they are limited to one thread, and several calls run in parallel on the device's own threads (helpers.h).
 * OpenMP's thread count belongs to the calling thread; it is restored after the call.
 */
#pragma once

/* The library does not link OpenMP: these exist only if one of the two is linked with it. */
#ifdef __APPLE__ /* where the linker refuses what may be missing */
#include <dlfcn.h>
typedef union gpur_omp_function {
    void *found;
    int (*get)(void);
    void (*set)(int threads);
} gpur_omp_function;
#define omp_get_max_threads (((gpur_omp_function){dlsym(RTLD_DEFAULT, "omp_get_max_threads")}).get)
#define omp_set_num_threads (((gpur_omp_function){dlsym(RTLD_DEFAULT, "omp_set_num_threads")}).set)
#else
extern int omp_get_max_threads(void) __attribute__((weak));
extern void omp_set_num_threads(int threads) __attribute__((weak));
#endif

/* Returns the previous count, for gpur_omp_restore_threads. */
static inline int gpur_omp_set_one_thread(void)
{
    const int before = omp_get_max_threads ? omp_get_max_threads() : 1;
    if (before != 1 && omp_set_num_threads)
        omp_set_num_threads(1);
    return before;
}

static inline void gpur_omp_restore_threads(int before)
{
    if (before != 1 && omp_set_num_threads)
        omp_set_num_threads(before);
}
