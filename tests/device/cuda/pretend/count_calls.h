/* SPDX-License-Identifier: MIT */
/*
 * Counts which library enqueues what while a train step is captured. The linker puts these counters between the library
 * and its own CUDA files (--wrap, see tests/cuda.cmake), so the library does not know of them.
 */
#ifndef GPUR_DEVICE_CUDA_PRETEND_COUNT_CALLS_H
#define GPUR_DEVICE_CUDA_PRETEND_COUNT_CALLS_H

#include <stdint.h>

/* Origin of a graph node. COUNT_OURS: launches of our kernels. All other nodes are copies and fills. */
enum { COUNT_BLAS, COUNT_DNN_CONV, COUNT_OURS, COUNT_WAYS };

/* Calls, and the graph nodes they added. */
typedef struct call_counts {
    int64_t calls[COUNT_WAYS], nodes[COUNT_WAYS];
} call_counts;

/* Counts for the captures since count_calls_begin, in the order in which they were made. */
enum { COUNT_MOST_RECORDINGS = 8 };
void count_calls_begin(void);
int count_calls_recordings(void);
call_counts count_calls_of(int recording);

#endif
