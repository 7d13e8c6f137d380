/* SPDX-License-Identifier: MIT */
/*
 * Ids of rows where eviction is by priority, so that rows leave in any order and their slots are given to new rows. The
 * turn of a slot is 2 t + 1 while it holds its row number t, counted from 0, and 2 t while it waits for that row. The
 * id of the row is t x capacity + slot: no id is used twice, and the slot follows from it.
 */
#pragma once

#include "kernels/target/thread.h"

/* The slot of the row with this id, or -1 if it is not there (any more). */
GPUR_FN int64_t gpur_turn_slot(const int64_t *turn, int64_t capacity, int64_t id)
{
    const int64_t slot = id < 0 ? 0 : id % capacity;
    return id >= 0 && turn[slot] == 2 * (id / capacity) + 1 ? slot : -1;
}

/* The id of the row in a slot, or of the next one that will be there. */
GPUR_FN int64_t gpur_turn_id(const int64_t *turn, int64_t capacity, int64_t slot)
{
    return (turn[slot] >> 1) * capacity + slot;
}
