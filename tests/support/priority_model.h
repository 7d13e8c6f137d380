/* SPDX-License-Identifier: MIT */
/*
 * The priorities of the naive replay's rows, one number a row by id. Exponents are to be 0 or 1, which leave no
 * rounding to argue about.
 */
#ifndef GPUR_SUPPORT_PRIORITY_MODEL_H
#define GPUR_SUPPORT_PRIORITY_MODEL_H

#include "gpureplay/priority.h"
#include "reference/reference_replay.h"

typedef struct priority_model {
    const reference_replay *rows;
    float *priority; /* by id; -1 before the row was visible */
    int64_t next;    /* id of the first row that has none yet */
    float most, alpha, offset;
    int brings; /* rows bring a priority of their own: tagged_priority */
    int64_t updates, stale, invalid;
} priority_model;

/* `rows` has begun. */
void priority_model_begin(priority_model *model, const reference_replay *rows, const gpur_replay_config *config,
                          int brings);
void priority_model_end(priority_model *model);

/* What has become visible since the last call gets its first priorities, in the order of ids: a row's own, or where it
 * brings none the largest given before it. Call it before every change of priorities; how often else makes no
 * difference. */
void priority_model_insert_new(priority_model *model);

void priority_model_update(priority_model *model, int64_t count, const int64_t *ids, const float *priorities);

/* The leaves by slot, (capacity), as the ring has them; their sum. */
double priority_model_leaves(const priority_model *model, double *leaves);

/* The ids of draw number `draw`: (batch). */
void priority_model_sample(const priority_model *model, uint64_t seed, uint64_t draw, int64_t batch, int stratified,
                           int64_t *ids);

/* What the replay says otherwise, or NULL. */
const char *priority_model_differs(priority_model *model, gpur_replay *replay);

#endif
