/* SPDX-License-Identifier: MIT */
/* Writing the results. */
#ifndef BENCH_JSON_H
#define BENCH_JSON_H

#include "summary.h"

#include <stdio.h>

/* What stands above the cases: title, device, settings, build, machine, driver, commit, time. Leaves the list open. */
void json_head(FILE *file, const char *title, const char *device, const char *settings);

/* Closes the list of cases, and tells whether something ended the program before its end. */
void json_end(FILE *file, int is_interrupted);

/* Behind the head and each case: the closing lines, as of a program that ends here, out to the file, and back to where
 * they begin: whatever ends the program during the next case, the file is whole. A pipe, which has no way back, is left
 * open. */
void json_rest(FILE *file);

void json_string(FILE *file, const char *text);

/* , "name": [...] */
void json_samples(FILE *file, const char *name, const double *x, int n);

/* , "low": ..., "high": ..., "min": ..., "max": ..., "runs": ... */
void json_spread(FILE *file, bench_summary summary);

#endif
