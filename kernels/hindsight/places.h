/* SPDX-License-Identifier: MIT */
/* Rows of the window by their ids, and what the order of an episode says of them. */
#pragma once

#include "kernels/args_hindsight.h"
#include "kernels/lib/slot.h"
#include "kernels/target/thread.h"

GPUR_FN const unsigned char *gpur_hindsight_row(const gpur_window *window, const unsigned char *ring, int64_t pitch,
                                                int64_t capacity, int64_t id)
{
    return ring + gpur_window_slot(window, capacity, id) * pitch;
}

/* The entry of row `index` of an episode, of which a row has this place. */
GPUR_FN int64_t gpur_hindsight_entry(int64_t capacity, const gpur_hindsight_place *place, int64_t index)
{
    const int64_t entries = GPUR_HINDSIGHT_ORDERS * capacity;
    int64_t entry = (int64_t)place->at + index - (int64_t)place->index;
    entry += entry < 0 ? entries : 0;
    entry -= entry >= entries ? entries : 0;
    return entry;
}

/* The id of row `index` of the episode in which row `id` has this place. Ids of an episode that are in the window, or
 * were when it ended, are less than 2^31 apart. */
GPUR_FN int64_t gpur_hindsight_id(const gpur_hindsight_index *index_of, int64_t capacity,
                                  const gpur_hindsight_place *place, int64_t id, int64_t index)
{
    const int64_t entry = gpur_hindsight_entry(capacity, place, index);
    return id + (int32_t)(index_of->order[entry] - (uint32_t)id);
}
