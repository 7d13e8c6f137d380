/* SPDX-License-Identifier: MIT */
/*
 * The adjustment of the numbers of threads [Babaeizadeh et al. 2017, section 4.3]: a random change, which stays if the
 * rate did not fall. It is compared with what was measured of accepted numbers, never of rejected ones, and a fall by
 * a little is none. When some changes in a row were rejected, the accepted numbers are measured again, since the load
 * may have changed. Decisions follow from the seed and the rates.
 */
#pragma once

#include <stdint.h>

typedef struct gpur_ga3c_numbers {
    int32_t agents, predictors, trainers;
} gpur_ga3c_numbers;

typedef struct gpur_tuner {
    int32_t kind; /* GPUR_TUNER_* */
    uint64_t seed;
    gpur_ga3c_numbers most;
    uint64_t draws;             /* of random numbers so far */
    gpur_ga3c_numbers accepted; /* the numbers to which a rejected change goes back */
    double rate;                /* the largest one of accepted numbers since some were measured again */
    int32_t rejected;           /* changes since numbers were last accepted */
} gpur_tuner;

void gpur_tuner_begin(gpur_tuner *tuner, int32_t kind, uint64_t seed, gpur_ga3c_numbers most);

/* Judges numbers by their measured rate: 1 if they are accepted. Numbers that were accepted before stay accepted. */
int gpur_tuner_judge(gpur_tuner *tuner, gpur_ga3c_numbers measured, double rate);

/* The numbers to measure next: the accepted ones, changed or as they are. */
gpur_ga3c_numbers gpur_tuner_propose(gpur_tuner *tuner);
