/* SPDX-License-Identifier: MIT */
/* Lists the rows of episodes that have ended. Arguments and shapes: gpur_hindsight_find_args. A thread looks at a new
 * row, and walks back through the episode that ended there, if one did. */
#pragma once

#include "kernels/args_hindsight.h"
#include "kernels/hindsight/places.h"
#include "kernels/lib/previous.h"

GPUR_FN int64_t gpur_hindsight_previous(const gpur_hindsight_find_args *a, const gpur_window *window, int64_t id)
{
    int64_t previous;
    memcpy(&previous, gpur_hindsight_row(window, a->ring, a->pitch, a->capacity, id) + a->previous_offset,
           sizeof previous);
    return previous;
}

/* 1 if the row says itself that its episode ends with it. */
GPUR_FN int gpur_hindsight_is_end(const gpur_hindsight_find_args *a, const gpur_window *window, int64_t id)
{
    const unsigned char *const row = gpur_hindsight_row(window, a->ring, a->pitch, a->capacity, id);
    if (!a->has_flags)
        return 0;
    return (a->terminated_offset >= 0 && row[a->terminated_offset] != 0) ||
           (a->truncated_offset >= 0 && row[a->truncated_offset] != 0);
}

/* The row before in the same episode; -1: there is none in the window. Ids only fall, so that a walk ends whatever
 * values the rows have. */
GPUR_FN int64_t gpur_hindsight_before(const gpur_hindsight_find_args *a, const gpur_window *window, int64_t id)
{
    const int64_t previous = gpur_hindsight_previous(a, window, id);
    return previous < id && gpur_window_has(window, previous) ? previous : -1;
}

/* Writes the places and entries of the episode that ends with row `last`. */
GPUR_FN void gpur_hindsight_list(const gpur_hindsight_find_args *a, const gpur_window *window, int64_t last)
{
    const uint64_t entries = (uint64_t)(GPUR_HINDSIGHT_ORDERS * a->capacity);
    uint32_t length = 0, index;
    for (int64_t id = last; id >= 0; id = gpur_hindsight_before(a, window, id))
        length++;
    const uint64_t first = gpur_atomic_add_u64(a->index.used, length);
    index = length;
    for (int64_t id = last; id >= 0; id = gpur_hindsight_before(a, window, id)) {
        gpur_hindsight_place *const place = &a->index.places[gpur_window_slot(window, a->capacity, id)];
        index--;
        place->stamp = (uint32_t)id;
        place->at = (uint32_t)((first + index) % entries);
        place->index = index;
        place->length = length;
        a->index.order[place->at] = (uint32_t)id;
    }
}

GPUR_KERNEL(hindsight_find)
{
    const gpur_span span = gpur_grid_span(at, a->rows);
    const gpur_window window = *a->window;
    for (int64_t i = span.first; i < span.last; i += span.step) {
        const int64_t id = a->first_id + i, previous = gpur_hindsight_previous(a, &window, id);
        const int64_t before = gpur_previous_is_first(previous) ? gpur_previous_id(previous) : -1;
        /* A row that says itself that it is the last of its episode was listed when it was new. */
        if (before >= 0 && before < id && gpur_window_has(&window, before) &&
            !gpur_hindsight_is_end(a, &window, before))
            gpur_hindsight_list(a, &window, before);
        if (gpur_hindsight_is_end(a, &window, id))
            gpur_hindsight_list(a, &window, id);
    }
}
