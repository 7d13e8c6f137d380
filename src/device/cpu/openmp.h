/* SPDX-License-Identifier: MIT */
/*
 * OpenBLAS and oneDNN may come with OpenMP and start a team for a call, whose every member is waited for. They are
 * asked for one thread, and several calls run beside each other on the device's own threads (helpers_cpu.h). The count
 * is the calling thread's, and is given back as it was found.
 */
#ifndef GPUR_DEVICE_CPU_OPENMP_H
#define GPUR_DEVICE_CPU_OPENMP_H

/* The library links no OpenMP: these are there where one of those two brought it. */
extern int omp_get_max_threads(void) __attribute__((weak));
extern void omp_set_num_threads(int threads) __attribute__((weak));

/* Returns the count there was, for gpur_omp_give_back. */
static inline int gpur_omp_take_one_thread(void)
{
    const int before = omp_get_max_threads ? omp_get_max_threads() : 1;
    if (before != 1 && omp_set_num_threads)
        omp_set_num_threads(1);
    return before;
}

static inline void gpur_omp_give_back(int before)
{
    if (before != 1 && omp_set_num_threads)
        omp_set_num_threads(before);
}

#endif
