/* SPDX-License-Identifier: MIT */
/*
 * The priorities of the naive replay's rows, one number a row by id. With the exponents 0 and 1 nothing is
 * rounded.
 */
#pragma once

#include "gpureplay/priority.h"
#include "reference/reference_replay.h"

typedef struct priority_model {
    const reference_replay *rows;
    float *priority;           /* by id; -1 before the row was visible */
    int64_t next;              /* id of the first row that has none yet */
    float ever, alpha, offset; /* ever: the largest priority given */
    int first_ever, octave;    /* octave: of the replay, see priority_model_read_octave */
    int rows_have_priority;    /* the rows' field "priority" is tagged_priority */
    int64_t updates, stale, invalid;
} priority_model;

/* `rows` has begun. */
void priority_model_begin(priority_model *model, const reference_replay *rows, const gpur_replay_config *config,
                          int rows_have_priority);
void priority_model_end(priority_model *model);

/* Rows that have become visible since the last call get their first priorities, in the order of ids: a row's own, or
 * the largest one of the visible rows before it, or ever given. Call it before every change of priorities. */
void priority_model_insert_new(priority_model *model);

void priority_model_update(priority_model *model, int64_t count, const int64_t *ids, const float *priorities);

/* Reads the scale of the leaves, which depends on all that has been. It must suit the largest priority. */
int priority_model_read_octave(priority_model *model, gpur_replay *replay);

/* The leaves by slot, (capacity), as the ring has them; their sum. */
double priority_model_leaves(const priority_model *model, double *leaves);

/* The ids (batch) of sample number `sample`. */
void priority_model_sample(const priority_model *model, uint64_t seed, uint64_t sample, int64_t batch, int stratified,
                           int64_t *ids);

/* What differs in the replay, or NULL. */
const char *priority_model_differs(priority_model *model, gpur_replay *replay);
