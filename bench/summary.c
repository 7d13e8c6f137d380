/* SPDX-License-Identifier: MIT */
#include "summary.h"

#include <math.h>
#include <stdlib.h>

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

bench_summary bench_summarise(double *x, int n)
{
    qsort(x, (size_t)n, sizeof *x, by_value);
    const int reach = (int)ceil(0.98 * sqrt((double)n));
    const int low = n / 2 - reach, high = n / 2 + reach;
    return (bench_summary){
        .median = n % 2 ? x[n / 2] : 0.5 * (x[n / 2 - 1] + x[n / 2]),
        .low = x[low < 0 ? 0 : low],
        .high = x[high >= n ? n - 1 : high],
        .min = x[0],
        .max = x[n - 1],
        .runs = n,
    };
}
