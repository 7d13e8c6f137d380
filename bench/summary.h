/* SPDX-License-Identifier: MIT */
/* What many samples of one thing come to. */
#ifndef BENCH_SUMMARY_H
#define BENCH_SUMMARY_H

typedef struct bench_summary {
    double median, low, high; /* low to high: the distribution-free 95% interval of the median */
    double min, max;
    int runs;
} bench_summary;

/* j, where the j-th least to the j-th greatest of `n` samples, which need no distribution, hold their median with a
 * chance of at least 95%: fewer than j are under it with 2.5% at most (binomial). 1 below 6 samples, which cannot. */
int bench_interval_rank(int n);

/* Sorts `x` (n), of one or more. */
bench_summary bench_summarise(double *x, int n);

#endif
