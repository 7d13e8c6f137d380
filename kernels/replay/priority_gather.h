/* SPDX-License-Identifier: MIT */
/*
 * Draws rows by priority [Schaul et al. 2016, section 3.3], copies them and computes their weights, in one kernel:
 * gpur_priority_gather_args. A warp draws a row and copies it. The rows, ids and weights are those of priority_sample,
 * gather and priority_weights, one after the other.
 *
 * The root of the tree, where every descent begins, is loaded together with the window and the total.
 */
#pragma once

#include "kernels/priority/priority_sample.h"
#include "kernels/priority/priority_weights.h"
#include "kernels/replay/gather.h"

/* The row that a lane writes down. */
typedef struct gpur_drawn_row {
    int64_t slot, id; /* -1: it is missing */
    uint32_t leaf;
} gpur_drawn_row;

/* What all rows share. */
typedef struct gpur_priority_gather_state {
    gpur_priority_sample_state sample;
    gpur_sample_state gather;
    gpur_lane_children root;
    double numerator; /* of GPUR_WEIGH_EACH, as the next one */
    float beta;
} gpur_priority_gather_state;

GPUR_FN gpur_priority_gather_state gpur_priority_gather_begin(gpur_thread at, const gpur_priority_gather_args *a,
                                                              gpur_divisor batch)
{
    gpur_priority_gather_state state;
    state.root = gpur_warp_root(at, &a->sample.tree);
    state.sample = gpur_priority_sample_begin(&a->sample, batch);
    memset(&state.gather, 0, sizeof state.gather);
    state.gather.window = state.sample.window;
    state.numerator = 0.0, state.beta = 0.0f;
    if (a->weigh == GPUR_WEIGH_EACH) {
        state.numerator = gpur_weight_numerator(at, &a->weights);
        state.beta = gpur_weight_beta(&a->weights);
    }
    return state;
}

/* Draws the rows of a round. Lane r gets row r, and the other lanes a missing one. */
GPUR_FN gpur_drawn_row gpur_draw_round(gpur_thread at, const gpur_priority_gather_state *state,
                                       const gpur_priority_gather_args *a, gpur_warp_round round)
{
    const gpur_priority_sample_state *const s = &state->sample;
    const int64_t b = round.first + gpur_lane(at);
    const int is_mine = gpur_lane(at) < round.rows;
    gpur_drawn_row mine = {-1, -1, 0};
    if (gpur_priority_sample_is_uniform(s)) {
        mine.id = is_mine ? gpur_priority_sample_uniform_id(s, &a->sample, b) : -1;
        mine.slot = gpur_sample_slot_of_id(&state->gather, &a->gather, mine.id);
        mine.id = mine.slot < 0 ? -1 : mine.id;
        return mine;
    }
    const uint64_t mass = is_mine ? gpur_sample_mass(s, &a->sample, b) : 0;
    for (int r = 0; r < round.rows; r++) {
        const gpur_found_leaf found = gpur_warp_find(at, &a->sample.tree, &state->root, gpur_warp_get_u64(at, mass, r));
        if (gpur_lane(at) == r)
            mine.slot = found.slot, mine.leaf = found.leaf;
    }
    if (is_mine)
        mine.id = gpur_tree_id(&a->sample.tree, &s->window, mine.slot);
    return mine;
}

GPUR_FN void gpur_priority_gather_write(const gpur_priority_gather_state *state, const gpur_priority_gather_args *a,
                                        int64_t b, const gpur_drawn_row *row, int is_terminal)
{
    a->sample.id[b] = row->id;
    a->sample.leaf[b] = row->leaf;
    gpur_gather_extras(&state->gather, &a->gather, b, row->slot, is_terminal);
    if (a->weigh == GPUR_WEIGH_EACH)
        a->weights.weight[b] = gpur_weight_of(row->id, row->leaf, state->numerator, state->beta);
}

/* Each block draws and copies the same share of the batch. */
GPUR_FN void gpur_priority_gather_serial(gpur_thread at, const gpur_priority_gather_args *a)
{
    gpur_priority_sample(at, &a->sample);
    gpur_gather_by_blocks(at, &a->gather);
    if (a->weigh == GPUR_WEIGH_EACH)
        gpur_priority_weights(at, &a->weights);
}

GPUR_FN void gpur_priority_gather_parallel(gpur_thread at, const gpur_priority_gather_args *a,
                                           const gpur_priority_gather_state *state, const gpur_lane_units *units,
                                           int shift)
{
    const gpur_span rounds = gpur_warp_rows(at, gpur_rounds_of(a->gather.batch, shift));
    for (int64_t n = rounds.first; n < rounds.last; n += rounds.step) {
        const gpur_warp_round round = gpur_round_of(a->gather.batch, shift, n);
        const gpur_drawn_row mine = gpur_draw_round(at, state, a, round);
        const int is_terminal = gpur_gather_is_terminal(&a->gather, mine.slot); /* loaded while the row is */
        gpur_copy_round(at, &a->gather, units, round, mine.slot);
        if (gpur_lane(at) < round.rows)
            gpur_priority_gather_write(state, a, round.first + gpur_lane(at), &mine, is_terminal);
    }
}

/* What follows from the arguments. */
typedef struct gpur_priority_gather_prepared {
    gpur_lane_units units;
    gpur_divisor batch;
    int shift;
} gpur_priority_gather_prepared;

GPUR_FN gpur_priority_gather_prepared gpur_priority_gather_prepare(gpur_thread at, const gpur_priority_gather_args *a)
{
    gpur_priority_gather_prepared prepared;
    if (gpur_is_parallel()) {
        gpur_lane_units_of(at, &a->gather, &prepared.units);
        prepared.batch = gpur_divisor_of(a->gather.batch);
        prepared.shift = gpur_round_shift(at, a->gather.batch);
    } else {
        memset(&prepared, 0, sizeof prepared); /* the serial body reads none of it */
    }
    return prepared;
}

GPUR_KERNEL_PREPARED(priority_gather, 640)
{
    if (gpur_is_parallel()) {
        const gpur_priority_gather_state state = gpur_priority_gather_begin(at, a, prepared->batch);
        gpur_priority_gather_parallel(at, a, &state, &prepared->units, prepared->shift);
    } else {
        gpur_priority_gather_serial(at, a);
    }
    if (a->weigh == GPUR_WEIGH_LAST && gpur_is_last_to_arrive(at, &a->sample.tree.state->arrived))
        gpur_priority_weights(gpur_as_single_block(at), &a->weights);
}
