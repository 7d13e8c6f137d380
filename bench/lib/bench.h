/* SPDX-License-Identifier: MIT */
/*
 * Timing. A case has one variant, or several that do the same thing. Variants are sampled alternately, A B C A B C ...,
 * so that a machine that slows down slows all of them. A variant's time is the median of its samples. Where there are
 * several, each also has the median of the ratios of its samples to the reference's samples of the same round.
 * Intervals are distribution-free 95% intervals of a median (summary.h).
 */
#pragma once

#include "json.h"
#include "summary.h"

#include "gpureplay.h"

#include <stdio.h>

/* The range of five samples contains the median with a probability of 93.75%, that of six with 96.9%. */
enum { BENCH_MIN_ROUNDS = 6, BENCH_MAX_ROUNDS = 4096, BENCH_MAX_VARIANTS = 4 };

/* Runs the operation `repeats` times. */
typedef void (*bench_body)(void *context, int64_t repeats);

typedef struct bench_variant {
    const char *name;
    const char *note; /* how it was done in this run; NULL: nothing to say */
    double items;     /* things that one repeat handles; 0: the case's */
    bench_body body;
    void *context;
} bench_variant;

typedef struct bench_case {
    const char *name;   /* NULL: "figure, x_name x" */
    const char *figure; /* for plots: the figure that the case belongs to, and its x; NULL: none */
    const char *x_name;
    double x;
    const char *item; /* "transition", "row", "step" */
    double items;     /* things that one repeat handles: times are per item; 0: 1 */
    double goal;      /* largest ratio that the first variant promises; 0: none */
    double seconds;   /* shortest sample; 0: as the options say */
    double limit;     /* seconds after which the case ends; 0: 20; with --quick always 1 */
    int single_calls; /* 1: a sample is one call; a round is 50 of each variant, 10 in a row */
    int rounds;       /* at most; 0: as the options say */
    int reference;    /* the variant that the others are divided by */
    int count;
    bench_variant variants[BENCH_MAX_VARIANTS];
} bench_case;

/* Ours against a bare operation that it cannot avoid, with the same context: the ratio is ours / bare. */
bench_case bench_versus(const char *name, const char *item, double items, bench_body ours, const char *baseline,
                        bench_body bare, void *context);

/* One operation alone. */
bench_case bench_alone(const char *name, const char *item, double items, const char *variant, bench_body body,
                       void *context);

/* A point of a figure, without variants. */
bench_case bench_point(const char *figure, const char *x_name, double x, const char *item, int reference, int count);

typedef struct bench_options {
    const char *device; /* "cpu", "cuda:0" */
    const char *json;   /* file for the results; NULL: none */
    const char *only;   /* the cases that have this text in their names; NULL: all */
    int64_t rounds;     /* samples of each variant */
    double seconds;     /* of one sample, at least */
    int quick;
} bench_options;

/* An option of one program: --NAME with a whole number from `low` to `high`. */
typedef struct bench_option {
    const char *name, *help;
    int64_t low, high;
    int64_t *value; /* holds the default until the option is given */
    int64_t quick;  /* the default with --quick; 0: the same */
    const char *const *words; /* NULL: a number. Else the option is one of these, up to NULL, and its place the value */
} bench_option;

/* Reads --device, --json, --only, --rounds, --quick, --help, and `more` (count). Exits with 0 after --help, and with 2,
 * stating what was given and what is wanted, after anything else that it cannot use. */
bench_options bench_parse(int argc, char **argv, const char *purpose, const bench_option *more, int count);

typedef struct bench_report {
    const bench_options *options;
    json_file json;
    int cases, done, missed, failed;
    int chosen; /* cases that --only chooses */
} bench_report;

/* `settings` describes the machine (bench_describe); `cases` is how many will follow, 0 when that is not known. */
bench_report bench_begin(const bench_options *options, const char *title, const char *settings, int cases);

/* Returns 1 if --only chooses the case, or was not given. Else the functions below do nothing with it; ask before work
 * that only the case needs. */
int bench_wants(bench_report *report, const char *name);

/* Runs all rounds, prints a line for each variant, and writes every sample. A case ends at its limit with as many
 * rounds as it then has, and with no fewer than BENCH_MIN_ROUNDS. */
void bench_run(bench_report *report, const bench_case *c);

/* The samples of a case: seconds of one item. */
typedef struct bench_samples {
    int rounds;
    double seconds[BENCH_MAX_VARIANTS][BENCH_MAX_ROUNDS];
} bench_samples;

/* Prints and writes a case whose samples the caller has taken. */
void bench_sampled(bench_report *report, const bench_case *c, const bench_samples *samples);

/* A case that cannot be measured, with the last error as the reason: absent for GPUR_UNAVAILABLE, failed for any other
 * status. */
void bench_absent(bench_report *report, const char *name, gpur_status status);

/* Reports a comparison of results as a case of its own: `differ` of `count` values were wrong. Any is a failure. */
void bench_check(bench_report *report, const char *name, int64_t differ, int64_t count);

/* Closes the JSON file and says how many cases missed their goal. Returns the exit status: 1 if a case failed, or
 * --only chose none. */
int bench_end(bench_report *report);

double bench_now(void); /* seconds, monotonic */

/* Seconds of one repeat; and repeats that take at least `seconds`, which also warms up. */
double bench_time(bench_body body, void *context, int64_t repeats);
int64_t bench_calibrate(bench_body body, void *context, double seconds);

/* On a terminal: how much is done, and the case in progress, of which `part` (0 to 1) is; hide it before printing.
 * After Ctrl-C bench_show ends the program with status 130 and the finished cases in the JSON file: call it only
 * between two cases of the file. */
void bench_show(bench_report *report, const char *name, double part);
void bench_hide(void);
