/* SPDX-License-Identifier: MIT */
/* The folder "checkpoint" of a run: the files of gpur_run_save, the weights of the best evaluation, and position.txt. A
 * new one is saved as "checkpoint.new", and replaces the one before when it is complete: whenever the process is
 * killed, one complete checkpoint is there. */
#pragma once

#include "train/record.h"

/* Where a run was when its checkpoint was saved. */
typedef struct gpur_position {
    int64_t step;
    double seconds;                   /* that the run had taken */
    int64_t bytes[GPUR_RECORD_FILES]; /* of the files of the record */
} gpur_position;

/* Whether there is one. Nothing is changed: another process may be writing to the folder. */
int gpur_train_checkpoint_exists(const char *folder);

/* Saves the run. `at` has the step and the seconds, and receives the bytes. */
gpur_status gpur_train_checkpoint_save(const char *folder, gpur_run *run, gpur_record *record, gpur_position *at);

/* Ends what a killed process has begun, and reads the position of the last checkpoint. */
gpur_status gpur_train_checkpoint_find(const char *folder, const gpur_record *record, gpur_position *at, int *is_there);

gpur_status gpur_train_checkpoint_load(const char *folder, gpur_run *run, int32_t refill);
