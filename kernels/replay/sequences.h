/* SPDX-License-Identifier: MIT */
/*
 * Sequences of successive transitions of an environment. The last row is chosen, and refused if it has too few
 * predecessors, so blocks of exactly L rows are uniform over all blocks of the window, as a cache of returns needs them
 * [Daley & Amato 2021b, algorithm 1]. Arguments and shapes: gpur_sequences_args. A thread finds a sequence.
 */
#pragma once

#include "kernels/args_sequences.h"
#include "kernels/lib/lane_rows.h"
#include "kernels/lib/previous.h"
#include "kernels/lib/random.h"
#include "kernels/priority/strata.h"
#include "kernels/priority/tree_descend.h"

/* State that all sequences of one launch share. */
typedef struct gpur_sequences_state {
    gpur_window window;
    uint64_t step, total; /* total: the sum of all priorities; 0: last rows are chosen uniformly */
} gpur_sequences_state;

GPUR_FN gpur_sequences_state gpur_sequences_begin(const gpur_sequences_args *a)
{
    gpur_sequences_state state;
    state.window = *a->window;
    state.step = a->step ? *a->step : a->step_value;
    state.total = a->last == GPUR_LAST_INDEPENDENT || a->last == GPUR_LAST_STRATIFIED ? gpur_tree_total(&a->tree) : 0;
    return state;
}

/* The id of the last row of sequence s, which may be outside of the window. */
GPUR_FN int64_t gpur_sequence_draw(const gpur_sequences_state *state, const gpur_sequences_args *a, int64_t s, int draw)
{
    const gpur_u32x4 bits =
        gpur_random_bits(a->seed, a->purpose, state->step, (uint32_t)(s * GPUR_SEQUENCE_DRAWS + draw));
    const uint64_t wide = (uint64_t)bits.v[1] << 32 | bits.v[0];
    if (a->last == GPUR_LAST_GIVEN)
        return a->last_ids[s * a->last_pitch];
    if (state->total == 0)
        return state->window.first_id + (int64_t)gpur_mulhi_u64(wide, (uint64_t)state->window.count);
    const gpur_strata strata = gpur_strata_of(state->total, gpur_divisor_of(a->count));
    const uint64_t mass = a->last == GPUR_LAST_STRATIFIED && draw == 0 ? gpur_stratum_mass(&strata, s, wide)
                                                                       : gpur_mulhi_u64(wide, state->total);
    return gpur_tree_id(&a->tree, &state->window, gpur_thread_find(&a->tree, mass));
}

GPUR_FN int64_t gpur_sequence_slot(const gpur_sequences_state *state, const gpur_sequences_args *a, int64_t id)
{
    const int64_t slot = state->window.first_slot + (id - state->window.first_id);
    return slot < a->capacity ? slot : slot - a->capacity;
}

/* `previous` of a row of the window. */
GPUR_FN int64_t gpur_sequence_previous(const gpur_sequences_state *state, const gpur_sequences_args *a, int64_t id)
{
    int64_t previous;
    if (a->lanes.state)
        return gpur_lanes_previous(&a->lanes, id);
    memcpy(&previous, a->ring + gpur_sequence_slot(state, a, id) * a->pitch + a->previous_offset, sizeof previous);
    return previous;
}

/* 1 if the row is there, and a transition can be made of it. */
GPUR_FN int gpur_sequence_has(const gpur_sequences_state *state, const gpur_sequences_args *a, int64_t id)
{
    if (id < state->window.first_id || id - state->window.first_id >= state->window.count)
        return 0;
    return !a->lanes.state || (a->lanes.flags[gpur_sequence_slot(state, a, id)] & GPUR_LANE_IS_WHOLE) != 0;
}

/* The row before the one with this id and this `previous`; -1 if the sequence begins here. Ids only fall along a
 * sequence, so it ends whatever values the rows have. */
GPUR_FN int64_t gpur_sequence_before(const gpur_sequences_state *state, const gpur_sequences_args *a, int64_t id,
                                     int64_t previous)
{
    const int64_t before = gpur_previous_id(previous);
    if (!a->across_episodes && gpur_previous_is_first(previous))
        return -1;
    return before < id && gpur_sequence_has(state, a, before) ? before : -1;
}

/* Writes the rows that end with row `last` at the end of the sequence's part of the arrays, and returns how many. */
GPUR_FN int64_t gpur_sequence_walk(const gpur_sequences_state *state, const gpur_sequences_args *a, int64_t s,
                                   int64_t last)
{
    int64_t found = 0, id = last;
    if (!gpur_sequence_has(state, a, id))
        return 0;
    while (id >= 0 && found < a->length) {
        const int64_t at = s * a->length + a->length - 1 - found++, previous = gpur_sequence_previous(state, a, id);
        a->id[at] = id;
        if (a->is_first)
            a->is_first[at] = (uint8_t)gpur_previous_is_first(previous);
        id = gpur_sequence_before(state, a, id, previous);
    }
    return found;
}

/* Moves the ids and is_first of a sequence to its front, with -1 and 0 after them. Then writes its mask and leaves. */
GPUR_FN void gpur_sequence_finish(const gpur_sequences_args *a, int64_t s, int64_t found, uint32_t leaf)
{
    const int64_t first = s * a->length, skipped = a->length - found;
    for (int64_t i = 0; i < a->length; i++) {
        const int is_there = i < found;
        a->id[first + i] = is_there ? a->id[first + skipped + i] : -1;
        if (a->is_first)
            a->is_first[first + i] = is_there ? a->is_first[first + skipped + i] : 0;
        if (a->mask)
            a->mask[first + i] = (uint8_t)is_there;
        if (a->leaf)
            a->leaf[first + i] = leaf;
    }
}

GPUR_KERNEL(sequences)
{
    const gpur_span span = gpur_grid_span(at, a->count);
    const gpur_sequences_state state = gpur_sequences_begin(a);
    const int draws = a->last == GPUR_LAST_GIVEN ? 1 : GPUR_SEQUENCE_DRAWS;
    for (int64_t s = span.first; s < span.last; s += span.step) {
        int64_t last = -1, found = 0;
        for (int draw = 0; draw < draws && found < a->min_length && state.window.count > 0; draw++) {
            last = gpur_sequence_draw(&state, a, s, draw);
            found = gpur_sequence_walk(&state, a, s, last);
        }
        found = found < a->min_length ? 0 : found;
        const int weighs = found > 0 && state.total > 0;
        gpur_sequence_finish(a, s, found, weighs ? a->tree.leaf[gpur_sequence_slot(&state, a, last)] : 0);
    }
}
