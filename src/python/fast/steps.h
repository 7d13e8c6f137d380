/* SPDX-License-Identifier: MIT */
/* Steps: what a step of every environment is to a writer that follows their episodes, as the package's _steps.py
 * describes it. What that keeps of each environment lies in arrays of the package's. */
#ifndef GPUREPLAY_PYTHON_STEPS_H
#define GPUREPLAY_PYTHON_STEPS_H

#include "rows.h"

/* Where an environment stands, as the package's numbers have it; the first three are the library's. */
enum { FAST_NEW, FAST_OPEN, FAST_ENDED, FAST_UNKNOWN };

/* Columns that every such schema has. */
typedef struct fast_step_columns {
    int obs, action, reward, next_obs, terminated, truncated;
} fast_step_columns;

typedef struct fast_steps {
    PyObject_HEAD
    fast_rows *rows;         /* of what is given, one row an environment */
    PyObject *arrays[3];     /* which have these: */
    unsigned char *standing; /* (num_envs) */
    int64_t *pending;        /* (num_envs) steps that begin no transition yet */
    unsigned char *last;     /* (num_envs, obs_bytes) where episodes are open */
    int64_t num_envs, obs_bytes, n_step;
    int after; /* where an environment stands after an episode's end */
    fast_step_columns at;
    int extra_count;             /* fields of the replay */
    int extras[GPUR_MAX_FIELDS]; /* (extra_count) of each, the column that is given beside those, or -1 */
} fast_steps;

/* How many transitions the step completed; NULL: with an exception, or nothing was done, and it is left to the package.
 * Waits for the writer's turn, and lets go of the interpreter's lock while the library works: it may have to wait, for
 * room or for a load. */
PyObject *fast_steps_take(fast_steps *steps, const fast_named *given);

/* The rest needs no interpreter. */

/* 1: the step follows from those before, and nothing of it wants the package; else 0. */
int fast_steps_are_ordinary(const fast_steps *steps, const fast_block *given);

/* To the library. */
gpur_status fast_steps_give(const fast_steps *steps, gpur_writer *writer, const fast_block *given);

/* Everyone stands where the step leads to; how many transitions it completed. */
int64_t fast_steps_move(fast_steps *steps, const fast_block *given);

#endif
