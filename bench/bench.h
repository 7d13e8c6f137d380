/* SPDX-License-Identifier: MIT */
/*
 * Ratios, not times, where there is something to divide by: each case runs our operation and the bare operation it
 * cannot avoid in turn, A B A B ..., so that a machine that slows down slows both. The figure is the median of the
 * ratios of neighbours; its interval is the distribution-free 95% interval of a median (order statistics of the
 * binomial).
 */
#ifndef BENCH_H
#define BENCH_H

#include "summary.h"

#include <stdint.h>
#include <stdio.h>

/* From the least to the greatest of five samples lies a median with a chance of 93.75%, of six with 96.9%. */
enum { BENCH_FEWEST_ROUNDS = 6, BENCH_MAX_ROUNDS = 512 };

/* Runs the operation `repeats` times. */
typedef void (*bench_body)(void *context, int64_t repeats);

typedef struct bench_case {
    const char *name;     /* "append 2000 x 228 B" */
    const char *baseline; /* what the bare operation is */
    double items;         /* things one repeat handles, for the time per item */
    const char *item;     /* "transition", "row", "step" */
    double goal;          /* the ratio that is promised; 0: none */
    bench_body ours;
    bench_body bare;
    void *context;
} bench_case;

/* A figure that stands alone, where there is nothing bare to divide by. */
typedef struct bench_figure {
    const char *name; /* "copy to the device, 64 MB" */
    double items;     /* things one repeat handles, for the time per item */
    const char *item; /* "copy", "node", "step" */
    double work;      /* bytes or floating-point operations of one item, for the rate; 0: none */
    const char *unit; /* of that work: "B", "FLOP" */
    int rounds;       /* samples; 0: as the options say */
    bench_body body;
    void *context;
} bench_figure;

typedef struct bench_options {
    const char *device; /* "cpu", "cuda:0" */
    const char *json;   /* where to write; NULL: nowhere */
    int rounds;         /* pairs a case */
    double seconds;     /* of one sample, at least */
    int quick;
} bench_options;

/* Reads --device, --json, --rounds, --quick, --help. 0 to go on; else the exit status + 1, having said why. */
int bench_parse(bench_options *options, int argc, char **argv, const char *purpose);

typedef struct bench_report {
    const bench_options *options;
    FILE *json;
    int cases, done, missed;
} bench_report;

/* `title` and the settings line go to the head of table and JSON; `cases` is how many will follow, 0 when that is not
 * known. */
int bench_begin(bench_report *report, const bench_options *options, const char *title, const char *settings, int cases);
void bench_run(bench_report *report, const bench_case *c);
/* Median of the samples, and its interval; seconds an item. */
bench_summary bench_measure(bench_report *report, const bench_figure *f);

/* Closes the JSON and tells how many cases missed their goal. Always 0: a figure is a finding, not a failure. */
int bench_end(bench_report *report);

double bench_now(void); /* seconds, monotonic */

/* For what has a table of its own: seconds of one repeat; repeats that take so many seconds, which also warms up; the
 * beginning of a case in the JSON, and its end, with which the file is whole until the next begins. */
double bench_time(bench_body body, void *context, int64_t repeats);
int64_t bench_calibrate(bench_body body, void *context, double seconds);
void bench_json_name(bench_report *report, const char *name);
void bench_json_close(bench_report *report);

/* On a terminal: a bar, and what is under way, of which `part` (0 to 1) is done. Hidden before a line is printed. After
 * Ctrl-C it leaves the program with status 130 and the finished cases in the JSON: call it where no case is half
 * written. */
void bench_show(const bench_report *report, const char *name, double part);
void bench_hide(void);

#endif
