/* SPDX-License-Identifier: MIT */
/* How training stands at one moment: a row of the CSV, and the progress line. */
#ifndef EXAMPLES_REPORT_H
#define EXAMPLES_REPORT_H

#include <stdint.h>

typedef struct train_report {
    int64_t steps;           /* of all environments together */
    int64_t episodes;        /* finished */
    int64_t train_steps;     /* enqueued */
    double seconds;          /* since training began, evaluations included */
    double seconds_left;     /* until a limit ends it, at the most */
    double steps_per_second; /* environment steps, since training began */
    float train_return;      /* mean of the last 100 episodes, exploration included; NaN: none yet */
    float eval_return;       /* mean of the greedy evaluation; NaN: none made now */
    float loss;              /* mean since the report before; NaN: no train step finished */
    float mean_q;
    float epsilon;
} train_report;

#endif
