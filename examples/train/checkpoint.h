/* SPDX-License-Identifier: MIT */
/*
 * The folder "checkpoint" in the folder of a run: the files of agent_save, and position.txt, which says where the
 * run was. A new one is saved as "checkpoint.new", and takes the place of the one before when it is complete: whenever
 * the program is killed, one complete checkpoint is there, or is put in its place by checkpoint_find.
 */
#pragma once

#include "agent.h"
#include "record.h"

typedef struct position {
    int64_t step;                /* environment steps taken */
    double seconds;              /* that the run has taken */
    int64_t bytes[RECORD_FILES]; /* of the files of its record */
} position;

/* Saves the run, and the position, whose bytes it finds, as the new checkpoint, in the place of the one before, which
 * is removed. INTERRUPTED: the run was stopped before, and the checkpoint is still the one before. */
int checkpoint_save(const char *folder, agent *a, record *r, position *at);

/* Changes nothing: another process may be writing to the folder. */
int checkpoint_exists(const char *folder, int *is_there);

/* Reads the position of the last checkpoint; *is_there is 0 if there is none. */
int checkpoint_find(const char *folder, const record *r, position *at, int *is_there);

int checkpoint_load(const char *folder, agent *a, int refill);
