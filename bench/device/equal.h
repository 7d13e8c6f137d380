/* SPDX-License-Identifier: MIT */
/* Whether two ways came to the same, as a case of its own: the time of a way that comes to something else says nothing.
 */
#ifndef BENCH_DEVICE_EQUAL_H
#define BENCH_DEVICE_EQUAL_H

#include "bench/bench.h"

/* {"name": ..., "differ": 0, "of": 1000000} */
void bench_equal(bench_report *report, const char *name, int64_t differ, int64_t of);

/* How many of `count` numbers of `size` bytes differ. */
int64_t differing(const void *a, const void *b, int64_t count, size_t size);

#endif
