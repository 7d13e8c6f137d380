/* SPDX-License-Identifier: MIT */
/* What a device or its libraries have not, as a case of its own: in the table with its reason, and in the JSON. */
#ifndef BENCH_DEVICE_ABSENT_H
#define BENCH_DEVICE_ABSENT_H

#include "bench/bench.h"

/* {"name": ..., "absent": why} */
void bench_absent(bench_report *report, const char *name, const char *why);

#endif
