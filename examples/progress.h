/* SPDX-License-Identifier: MIT */
/* The progress line: rewritten in place on a terminal, a line of its own every few seconds elsewhere. */
#ifndef EXAMPLES_PROGRESS_H
#define EXAMPLES_PROGRESS_H

#include "report.h"

typedef struct progress_line {
    int is_terminal;
    int has_shown;
    double shown_at; /* seconds of the report shown last */
    float last_eval; /* of the evaluation before; NaN: none yet */
} progress_line;

void progress_begin(progress_line *progress);
void progress_show(progress_line *progress, const train_report *report); /* unless it has just shown one */
void progress_end(progress_line *progress);                              /* leaves the cursor at the start of a line */

#endif
