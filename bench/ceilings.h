/* SPDX-License-Identifier: MIT */
/* What this machine can do at best, measured in the same run as what is held against it: the best of the samples. */
#ifndef BENCH_CEILINGS_H
#define BENCH_CEILINGS_H

#include "bench.h"
#include "gpureplay.h"

typedef struct ceilings {
    double up;     /* bytes a second from pinned host memory to the device */
    double within; /* bytes a second read and written within the device's memory */
    double flops;  /* floating-point operations a second of a square float32 product */
} ceilings;

enum { CEILINGS_CASES = 3 };

/* Adds a case each to the report. */
void ceilings_measure(bench_report *report, gpur_device *device, ceilings *most);

#endif
