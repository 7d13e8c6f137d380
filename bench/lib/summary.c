/* SPDX-License-Identifier: MIT */
#include "summary.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static int compare_doubles(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int bench_interval_rank(int n)
{
    double term = ldexp(1.0, -n), below = term; /* P(exactly `rank`) and P(at most `rank`) of the binomial */
    int rank = 0;
    while (below <= 0.025) {
        term *= (double)(n - rank) / (rank + 1);
        below += term;
        rank++;
    }
    return rank > 1 ? rank : 1;
}

bench_summary bench_summarize(double *x, int n)
{
    qsort(x, (size_t)n, sizeof *x, compare_doubles);
    const int rank = bench_interval_rank(n);
    return (bench_summary){
        .median = n % 2 ? x[n / 2] : 0.5 * (x[n / 2 - 1] + x[n / 2]),
        .low = x[rank - 1],
        .high = x[n - rank],
        .p99 = x[(int)(0.99 * (n - 1))],
        .count = n,
    };
}

const char *time_text(double seconds, char text[TIME_TEXT])
{
    static const char *const units[] = {"ns", "us", "ms", "s"};
    double value = seconds * 1e9;
    int unit = 0;
    for (; value >= 999.5 && unit < 3; unit++)
        value /= 1000;
    snprintf(text, TIME_TEXT, "%.*f %s", value < 9.995 ? 2 : value < 99.95 ? 1 : 0, value, units[unit]);
    return text;
}
