/* SPDX-License-Identifier: MIT */
/* Whether numbers are normal, and independent between components, rows and steps. */
#pragma once

#include <stdint.h>

enum { NOISE_CELLS = 40, NOISE_PAIRS = 8 };

/* Zeroed at first. */
typedef struct noise_statistics {
    double sum, squares;
    int64_t count, cells[NOISE_CELLS];
    int64_t by_component[NOISE_PAIRS * NOISE_PAIRS], by_row[NOISE_PAIRS * NOISE_PAIRS];
    int64_t by_step[NOISE_PAIRS * NOISE_PAIRS];
} noise_statistics;

/* Adds the numbers (rows, size) of a step, divided by their standard deviation; both are even. `before`: those of the
 * step before, for every other step; NULL: none. */
void noise_statistics_add(noise_statistics *s, const double *now, const double *before, int rows, int size);

/* Checks against limits that one seed in millions crosses by chance; so the seed must be fixed. */
void noise_statistics_check(const noise_statistics *s);
