/* SPDX-License-Identifier: MIT */
/* The experiments of bench_compare [Parr 2018, section 5]. */
#ifndef BENCH_COMPARE_H
#define BENCH_COMPARE_H

#include "backend.h"

#include "bench/lib/bench.h"

/* By backend_kinds. DEVICE_CALLS shares the replay of DEVICE. */
enum { LIST, ROWS, DEVICE_CALLS, DEVICE, VARIANTS = BACKENDS };

typedef struct comparison {
    gpur_device *device;
    int64_t capacity;
    backend backends[VARIANTS];
} comparison;

/* Learners of this batch size for all. */
void comparison_set_learners(comparison *c, int64_t batch);
void comparison_unset_learners(comparison *c);

/* Train steps while threads append; appends by block_rows. */
void compare_threads(bench_report *report, comparison *c, int64_t batch, const int *threads, int count);
void compare_appends(bench_report *report, const comparison *c, const int64_t *updates, int count);

#endif
