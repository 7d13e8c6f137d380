/* SPDX-License-Identifier: MIT */
/* A case without a figure, with its reason in the table and in the JSON: what a device or its libraries have not, and
 * what failed, which is no absence. */
#ifndef BENCH_DEVICE_ABSENT_H
#define BENCH_DEVICE_ABSENT_H

#include "bench/bench.h"
#include "gpureplay.h"

/* {"name": ..., "absent": why} */
void bench_absent(bench_report *report, const char *name, const char *why);

/* What the last error says of `status`, not GPUR_OK: absent for GPUR_UNAVAILABLE, {"name": ..., "failed": why} for all
 * else. The cases behind it have their turn, and show whether the device still works. */
void bench_missing(bench_report *report, const char *name, gpur_status status);

#endif
