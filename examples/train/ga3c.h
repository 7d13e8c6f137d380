/* SPDX-License-Identifier: MIT */
/* What GA3C, A3C and A2C have of their own: rows of events, the evaluation, and rates. */
#pragma once

#include "agent.h"
#include "record.h"

/* Rates between two moments, of which `seconds` are between them: the columns of rates.csv from the third on. */
void ga3c_find_rates(const gpur_run_stats *from, const gpur_run_stats *to, double seconds, double *rates);

/* Prints them as a table, beside those of the paper for this preset, and the policy lags. */
void ga3c_print_rates(const gpur_run_stats *from, const gpur_run_stats *to, const char *preset, const double *rates);
