/* SPDX-License-Identifier: MIT */
/* The rows of rates.csv, and the line that shows progress. */
#pragma once

#include "train/record.h"

typedef struct gpur_progress {
    gpur_record *record;
    const gpur_train_system *system;
    const gpur_train_settings *settings;
    const gpur_train_handles *handles;
    void (*say)(void *user, int32_t kind, const char *line);
    void *user;
    double first_seconds, began;   /* what the run had taken when this process began or resumed it, and when that was */
    int32_t rows;                  /* that were added */
    gpur_train_sample first, last; /* of the beginning, and of the last row */
    gpur_row rates;                /* that are shown */
    int has_told_of_age, has_warned_of_cut_games;
} gpur_progress;

/* Begins to count. The members up to first_seconds are set. */
gpur_status gpur_progress_begin(gpur_progress *progress);

/* Fills in the columns of rates.csv. */
void gpur_progress_fill_columns(const gpur_progress *progress, gpur_row *row);

/* Adds a row if one is due, or if it is the `last` one, and then warns of what is to be warned of. */
gpur_status gpur_progress_look(gpur_progress *progress, int is_last);

/* Adds the line that shows progress. `is_stopping` 1: the training stops at the next checkpoint. */
gpur_status gpur_progress_add_line(const gpur_progress *progress, int is_stopping, gpur_text *line);

/* After the last look: adds the last line, with the rates of the whole time, and the system's table. */
gpur_status gpur_progress_add_summary(gpur_progress *progress, gpur_text *text);

/* Seconds that the run has taken, also before it was resumed. Any thread. */
double gpur_progress_seconds(const gpur_progress *progress);
