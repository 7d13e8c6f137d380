/* SPDX-License-Identifier: MIT */
/*
 * Priorities by definition, one number a row by id, for a replay whose window is known: every row that becomes visible
 * gets the largest so far, an update's largest value counts, and a draw is by the leaves of the visible rows. Exponents
 * are to be 0 or 1 and values exact in float32, which leaves no rounding to argue about.
 */
#ifndef GPUR_SUPPORT_RANK_MODEL_H
#define GPUR_SUPPORT_RANK_MODEL_H

#include "gpureplay.h"

typedef struct rank_model {
    float *priority; /* (room) by id; -1 before the row was visible */
    int64_t room;
    float most, alpha, offset;
    int64_t capacity, first, count; /* of the ring; the window */
    int64_t draws, updates, stale, invalid;
} rank_model;

void rank_begin(rank_model *m, const gpur_replay_config *config);
void rank_end(rank_model *m);

/* The window that the next launch sees; what is new in it gets its priority. */
gpur_status rank_look(rank_model *m, gpur_replay *replay);

void rank_update(rank_model *m, int64_t count, const int64_t *ids, const float *priorities);

/* Ids and weights of the next draw, of which there is one more then. */
void rank_draw(rank_model *m, int64_t batch, int stratified, double beta, int64_t *ids, double *weights);

/* What the replay says otherwise of its priorities, or NULL. `most` at a time. */
const char *rank_differs(rank_model *m, gpur_replay *replay, int64_t most);

#endif
