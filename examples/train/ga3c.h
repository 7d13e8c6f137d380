/* SPDX-License-Identifier: MIT */
/* What GA3C, A3C and A2C have of their own: rows of events, the evaluation, and rates. */
#pragma once

#include "agent.h"
#include "record.h"

/* Adds the row of an event. */
int ga3c_record(record *r, const gpur_ga3c_event *event);

/* Plays episodes and adds their row; 0 episodes: none. GPUR_INTERRUPTED: the run was stopped. */
gpur_status ga3c_evaluate(agent *a, record *r, int64_t step, int64_t episodes);

/* Rates between two moments, of which `seconds` are between them: the columns of rates.csv from the third on. */
void ga3c_find_rates(const gpur_ga3c_stats *from, const gpur_ga3c_stats *to, double seconds, double *rates);

/* Prints them as a table, beside those of the paper for this preset, and the policy lags. */
void ga3c_print_rates(const gpur_ga3c_stats *from, const gpur_ga3c_stats *to, const char *preset, const double *rates);
