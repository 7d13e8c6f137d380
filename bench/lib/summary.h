/* SPDX-License-Identifier: MIT */
/* Statistics of samples, and how a time is printed. */
#pragma once

typedef struct bench_summary {
    double median, low, high; /* low to high: the distribution-free 95% interval of the median */
    double p99;               /* the 99th percentile */
    int count;
} bench_summary;

/*
 * The rank j for which the j-th smallest to the j-th largest of `n` samples is a 95% interval of their median: the
 * largest j for which at most 2.5% of the binomial distribution (n, 1/2) lies below j. It assumes nothing about the
 * distribution of the samples. Returns 1 for fewer than 6 samples, whose whole range covers less than 95%.
 */
int bench_interval_rank(int n);

/* Sorts `x` (n), n >= 1. */
bench_summary bench_summarize(double *x, int n);

enum { TIME_TEXT = 16 };

/* Three digits and a unit: "6.56 ms". Returns `text`. */
const char *time_text(double seconds, char text[TIME_TEXT]);
