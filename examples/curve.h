/* SPDX-License-Identifier: MIT */
/* The learning curve as a CSV file, complete up to its last row whatever ends the program. */
#ifndef EXAMPLES_CURVE_H
#define EXAMPLES_CURVE_H

#include "report.h"

#include <stdio.h>

typedef struct learning_curve {
    FILE *file;
    char path[4096];
} learning_curve;

/* Begins FOLDER/curve.csv, or goes on with it, and makes the folder. 0, or -1 having said on stderr what is wrong. */
int curve_open(learning_curve *curve, const char *folder, int goes_on);
int curve_add(learning_curve *curve, const train_report *report); /* 0 or -1, likewise */
void curve_close(learning_curve *curve);                          /* also one that failed to open */

#endif
