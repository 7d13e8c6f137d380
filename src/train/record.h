/* SPDX-License-Identifier: MIT */
/*
 * The files that a run fills: episodes.csv, evaluations.csv and rates.csv, of Ape-X actors.csv, too, of GA3C tuner.csv,
 * and log.jsonl with the rows of all of them. A row is written by one call of write(2), so that a run that is killed
 * leaves whole rows. Without a folder rows go to the listener alone.
 */
#pragma once

#include "base/mutex.h"
#include "train/files.h"
#include "train/system.h"

/* Kinds of rows; each has a CSV file of its own. */
typedef enum gpur_record_kind {
    GPUR_RECORD_EPISODE,
    GPUR_RECORD_EVALUATION,
    GPUR_RECORD_RATES,
    GPUR_RECORD_ACTOR,
    GPUR_RECORD_TUNER,
    GPUR_RECORD_KINDS
} gpur_record_kind;

enum { GPUR_RECORD_FILES = GPUR_RECORD_KINDS + 1 }; /* and the log */

typedef struct gpur_record {
    const gpur_train_system *system;
    char folder[GPUR_MAX_PATH]; /* "": none */
    int file[GPUR_RECORD_FILES];
    gpur_mutex lock; /* rows of two threads */
    gpur_text row;
    void (*on_row)(void *user, const char *kind, int32_t columns, const char *const *names, const double *values,
                   const char *const *words); /* NULL: nobody listens */
    void *user;
} gpur_record;

/* Opens the files of a zeroed record whose listener is set, and keeps other processes from doing so. Nothing in them
 * changes. `folder` NULL: there are none. */
gpur_status gpur_record_open(gpur_record *record, const char *folder, const gpur_train_system *system);

/* Cuts off what the files have beyond `bytes` (GPUR_RECORD_FILES), as gpur_record_sync reported them. NULL: all that
 * they have, and gives them their header lines. `rates` has the columns of rates.csv. The listener gets the columns. */
gpur_status gpur_record_begin(gpur_record *record, const int64_t *bytes, const gpur_row *rates);

/* The last step of which the files have an episode or an evaluation; 0: there is none. */
gpur_status gpur_record_find_last_step(const gpur_record *record, int64_t *step);

void gpur_record_close(gpur_record *record); /* accepts a zeroed one */

/* Append rows, in any thread. */
gpur_status gpur_record_add_event(gpur_record *record, const gpur_run_event *event);
gpur_status gpur_record_add_rates(gpur_record *record, const gpur_row *rates);

/* Waits until all rows are on the disk, and reports the bytes (GPUR_RECORD_FILES) that the files have now. */
gpur_status gpur_record_sync(gpur_record *record, int64_t *bytes);

/* NULL: a system has no such file. `system` NULL: any system. */
const char *gpur_record_file_name(const gpur_train_system *system, int file);
