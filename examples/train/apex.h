/* SPDX-License-Identifier: MIT */
/* What Ape-X has of its own: rows of events, rates, and what an actor's process does. */
#pragma once

#include "record.h"
#include "settings.h"

/* Adds the row of an event, if it makes one. */
int apex_record(record *r, const gpur_run_event *event);

/* The command of actors' processes, for the program that runs now: words, then NULL, which point into `o`. */
enum { APEX_MAX_WORDS = 32 };
void apex_find_command(const options *o, const char *words[APEX_MAX_WORDS]);

/* Acts until the learner's process ends it. */
int apex_serve(options *o);

/* Acts as the remote actor of --work until `stop` says 1. */
int apex_work(options *o, int (*stop)(void *));

/* Rates between two moments, of which `seconds` are between them: the columns of rates.csv up to those of the
 * learner. */
void apex_find_rates(const gpur_run_stats *from, const gpur_run_stats *to, double seconds, double *rates);

/* Prints them as a table, beside those of the paper. */
void apex_print_rates(const gpur_run_stats *from, const gpur_run_stats *to, double seconds, const double *rates,
                      int has_dpg);
