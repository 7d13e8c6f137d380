/* SPDX-License-Identifier: MIT */
/* What many samples of one thing come to. */
#ifndef BENCH_SUMMARY_H
#define BENCH_SUMMARY_H

typedef struct bench_summary {
    double median, low, high; /* low to high: the distribution-free 95% interval of the median */
    double min, max;
    int runs;
} bench_summary;

/* The interval is that of the order statistics n/2 -+ 0.98 sqrt(n). Sorts `x` (n). */
bench_summary bench_summarise(double *x, int n);

#endif
