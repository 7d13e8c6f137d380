/* SPDX-License-Identifier: MIT */
/*
 * Who enqueues what while a step is recorded. The linker puts these counters between the library and its own CUDA files
 * (--wrap, see tests/cuda.cmake), so that nothing in the library knows of them.
 */
#ifndef GPUR_DEVICE_CUDA_PRETEND_COUNT_CALLS_H
#define GPUR_DEVICE_CUDA_PRETEND_COUNT_CALLS_H

#include <stdint.h>

/* Ways into a graph. COUNT_OURS: a launch of one of our kernels; what else stands between is copies and fills. */
enum { COUNT_BLAS, COUNT_DNN_DENSE, COUNT_DNN_CONV, COUNT_OURS, COUNT_WAYS };

/* Calls, and the nodes of the graph that came with them. */
typedef struct call_counts {
    int64_t calls[COUNT_WAYS], nodes[COUNT_WAYS];
} call_counts;

/* Of the recordings since `count_calls_begin`, in the order in which they were made. */
enum { COUNT_MOST_RECORDINGS = 8 };
void count_calls_begin(void);
int count_calls_recordings(void);
call_counts count_calls_of(int recording);

#endif
