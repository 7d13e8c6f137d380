/* SPDX-License-Identifier: MIT */
/*
 * A whole training, with the replay in RAM and on the device [Parr 2018, section 5, its last figure]: the dodge game of
 * examples/, preset "melee-gpu" with every constant of it, a train step for every environment step. All contestants
 * have the same seeds, environments, network, loss, optimiser and number of steps. They train in turns, a slice of the
 * curve each, so that a machine that slows down slows all; a clock runs for each while it plays and trains, and not
 * while it is evaluated or opened.
 */
#ifndef BENCH_TRAINING_H
#define BENCH_TRAINING_H

#include "bench/bench.h"

#include <stdint.h>
#include <stdio.h>

/* Environment steps, of all environments together. */
enum { TRAINING_ENVS = 8, TRAINING_ROUND = 200, TRAINING_POINTS = 20, TRAINING_EPISODES = 40, TRAINING_BATCHES = 2 };

typedef struct training_options {
    const char *device;
    const char *json; /* where to write; NULL: nowhere */
    int64_t steps;    /* of each training */
    int64_t seed;
    int64_t batch; /* 0: both */
    int quick;
} training_options;

/* Fills in `options` from the command line. 0 to go on; else the exit status + 1, having said why. */
int training_read_options(training_options *options, int argc, char **argv);

/* Steps before the first train step; until epsilon is down, which is a fifth, as the preset wants it; and at a point of
 * a curve, of which point 0 is before any step, and point 1 no earlier than the first train step. */
int64_t training_burn_in(const training_options *options);
int64_t training_exploration(const training_options *options);
int64_t training_point(const training_options *options, int32_t point);

/* How many points come after the first. */
int32_t training_points(const training_options *options);

/* Greedy return against steps and seconds. Point 0 is before any step. */
typedef struct training_curve {
    const char *contestant;
    int64_t batch;
    int32_t points;
    int64_t steps[TRAINING_POINTS + 1];
    int64_t train_steps[TRAINING_POINTS + 1];
    double seconds[TRAINING_POINTS + 1]; /* of play and training */
    double returns[TRAINING_POINTS + 1]; /* mean of TRAINING_EPISODES episodes */
} training_curve;

/* What is trained, and which of the contestants the others are compared with. */
enum { TRAINING_CONTESTANTS = 3, TRAINING_BASE = 0 };

typedef struct training_contest {
    int64_t batch;
    int32_t points; /* that every contestant has come to */
    training_curve curves[TRAINING_CONTESTANTS];
} training_contest;

/* Trains every contestant, and prints the curves as they grow. Leaves the program when the library refuses. 1 when it
 * was interrupted: the contest then holds what there is. */
int training_run(training_contest *contest, const training_options *options, int64_t batch);

/* Mean return of playing by chance, and of the dodger made by hand. */
typedef struct training_reference {
    double chance, hand;
} training_reference;

training_reference training_measure_reference(uint64_t seed);

/* How much longer the base took than `contestant` to the last common point, in percent. NaN before there is one. */
double training_percent_faster(const training_contest *contest, int32_t contestant);

/* The same slice by slice, which they took in turn: median and 95% interval. `runs` below BENCH_FEWEST_ROUNDS: too few
 * slices for an interval. It tells of the machine while this one training ran, of one seed. */
bench_summary training_slices_faster(const training_contest *contest, int32_t contestant);

void training_print_totals(const training_contest *contest);

typedef struct training_report {
    const training_options *options;
    const char *machine;
    training_reference reference;
    int is_interrupted;
    int32_t contests;
    const training_contest *contest; /* (contests) */
} training_report;

void training_write_json(FILE *file, const training_report *report);

#endif
