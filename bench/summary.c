/* SPDX-License-Identifier: MIT */
#include "summary.h"

#include <math.h>
#include <stdlib.h>

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int bench_interval_rank(int n)
{
    double term = ldexp(1.0, -n), below = term; /* the chance of 0 samples under the median; of at most `rank` */
    int rank = 0;
    while (below <= 0.025) {
        term *= (double)(n - rank) / (rank + 1);
        below += term;
        rank++;
    }
    return rank > 1 ? rank : 1;
}

bench_summary bench_summarise(double *x, int n)
{
    qsort(x, (size_t)n, sizeof *x, by_value);
    const int rank = bench_interval_rank(n);
    return (bench_summary){
        .median = n % 2 ? x[n / 2] : 0.5 * (x[n / 2 - 1] + x[n / 2]),
        .low = x[rank - 1],
        .high = x[n - rank],
        .min = x[0],
        .max = x[n - 1],
        .runs = n,
    };
}
