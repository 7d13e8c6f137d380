/* SPDX-License-Identifier: MIT */
/* Chooses the rows of a batch (uniform with replacement, distinct, or by given ids), and fills in the id, weight and
 * discount of each. Arguments and shapes: gpur_gather_args. */
#pragma once

#include "kernels/args_replay.h"
#include "kernels/lib/permutation.h"
#include "kernels/lib/slot.h"

/* State that all rows of one sample share. */
typedef struct gpur_sample_state {
    gpur_window window;
    uint64_t step;
    gpur_permutation permutation;
} gpur_sample_state;

GPUR_FN void gpur_sample_begin(gpur_sample_state *state, const gpur_gather_args *a)
{
    state->window = *a->window;
    state->step = a->step ? *a->step : a->step_value;
    memset(&state->permutation, 0, sizeof state->permutation);
    if (a->source == GPUR_GATHER_DISTINCT && state->window.count > 0)
        state->permutation = gpur_permutation_of(a->seed, a->purpose, state->step, (uint64_t)state->window.count);
}

/* The slot at this offset in the window, around the ring's end. */
GPUR_FN int64_t gpur_sample_slot(const gpur_sample_state *state, const gpur_gather_args *a, int64_t offset)
{
    const int64_t slot = state->window.first_slot + offset;
    return slot < a->capacity ? slot : slot - a->capacity;
}

/* The slot of the row with this id; -1: it is not there. */
GPUR_FN int64_t gpur_sample_slot_of_id(const gpur_sample_state *state, const gpur_gather_args *a, int64_t id)
{
    return gpur_slot_of_id(&state->window, a->turn, a->capacity, id);
}

/* The slot of row b of the batch; -1: the row is missing. */
GPUR_FN int64_t gpur_sample_row(const gpur_sample_state *state, const gpur_gather_args *a, int64_t b)
{
    const int64_t count = state->window.count;
    if (a->source == GPUR_GATHER_IDS)
        return gpur_sample_slot_of_id(state, a, a->ids[b]);
    if (b >= count && (count == 0 || a->source == GPUR_GATHER_DISTINCT))
        return -1;
    if (a->source == GPUR_GATHER_DISTINCT)
        return gpur_sample_slot(state, a, (int64_t)gpur_permute(&state->permutation, (uint64_t)b));
    const gpur_u32x4 bits = gpur_random_bits(a->seed, a->purpose, state->step, (uint32_t)b);
    return gpur_sample_slot(state, a, (int64_t)gpur_random_below(bits, (uint64_t)count));
}

/* The id of the row in this slot. */
GPUR_FN int64_t gpur_sample_id(const gpur_sample_state *state, const gpur_gather_args *a, int64_t slot)
{
    const int64_t offset = slot - state->window.first_slot;
    if (a->turn)
        return gpur_turn_id(a->turn, a->capacity, slot);
    return state->window.first_id + (offset < 0 ? offset + a->capacity : offset);
}

/* Whether the id of row b is there already, since it was given in the same memory. Blocks that copy other parts of the
 * row may still read it; one that is stale they take for a missing row's before and after it becomes -1. */
GPUR_FN int gpur_gather_has_id(const gpur_gather_args *a, int64_t b, int64_t slot)
{
    return a->source == GPUR_GATHER_IDS && a->ids == a->id && (slot >= 0 || a->ids[b] == -1);
}

/* 1: the row in this slot is terminal. 0 for a missing row, whose slot is -1, and where no discount is asked for. */
GPUR_FN int gpur_gather_is_terminal(const gpur_gather_args *a, int64_t slot)
{
    return slot >= 0 && a->discount && a->terminated_offset >= 0 &&
           a->ring[slot * a->pitch + a->terminated_offset] != 0;
}

/* Writes the id, weight and discount of row b, if they are wanted. A missing row has slot -1. */
GPUR_FN void gpur_gather_extras(const gpur_sample_state *state, const gpur_gather_args *a, int64_t b, int64_t slot,
                                int is_terminal)
{
    if (a->id && !gpur_gather_has_id(a, b, slot))
        a->id[b] = slot < 0 ? -1 : gpur_sample_id(state, a, slot);
    if (a->weight)
        a->weight[b] = slot < 0 ? 0.0f : 1.0f;
    if (a->discount)
        a->discount[b] = slot < 0 || is_terminal ? 0.0f : a->gamma;
}
