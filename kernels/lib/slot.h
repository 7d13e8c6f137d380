/* SPDX-License-Identifier: MIT */
#pragma once

#include "kernels/args_replay.h"
#include "kernels/lib/turn.h"

GPUR_FN int gpur_window_has(const gpur_window *window, int64_t id)
{
    return id >= window->first_id &&
           id - window->first_id < window->count; /* in this order the difference is a number */
}

/* The slot of a row that the window has, where ids follow each other. */
GPUR_FN int64_t gpur_window_slot(const gpur_window *window, int64_t capacity, int64_t id)
{
    const int64_t slot = window->first_slot + (id - window->first_id);
    return slot < capacity ? slot : slot - capacity;
}

/* The slot of the row with this id; -1: it is not in the window. `turn` as in gpur_gather_args. */
GPUR_FN int64_t gpur_slot_of_id(const gpur_window *window, const int64_t *turn, int64_t capacity, int64_t id)
{
    if (turn)
        return gpur_turn_slot(turn, capacity, id);
    return gpur_window_has(window, id) ? gpur_window_slot(window, capacity, id) : -1;
}
