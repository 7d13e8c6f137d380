/* SPDX-License-Identifier: MIT */
/* One preset's whole train step, from the draw to the last kernel, in one of the ways that a device has for it. */
#ifndef BENCH_DEVICE_STEP_WAYS_H
#define BENCH_DEVICE_STEP_WAYS_H

#include "bench/bench.h"
#include "gpureplay.h"

typedef struct step_how {
    int32_t math;          /* GPUR_MATH_... */
    int32_t unroll;        /* of the graph, where it is one */
    int32_t dependent;     /* 1: dependent launches */
    int32_t in_one_kernel; /* 1: whole steps are */
    int32_t blocks;        /* of that kernel; 0: as the library chooses */
    int32_t as_grid;       /* 1: a cooperative grid, 0: a cluster where there can be one */
} step_how;

typedef struct step_way {
    const char *preset;
    int64_t batch;
    step_how how;
} step_way;

/* The first steps are compared with the library's own in float32, bfloat16's loss with none. Then the time of a step
 * inside launches of many, one behind the other: the host is ahead, and not measured. What the device has not, or what
 * says nothing new there, is absent with its reason. */
void measure_step_way(bench_report *report, gpur_replay *replay, const step_way *way);

#endif
