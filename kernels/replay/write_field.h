/* SPDX-License-Identifier: MIT */
/* Writes new values of one field into rows given by id. Arguments and shapes: gpur_write_field_args. A warp writes a
 * row. One CPU thread writes the rows in their order, so that of several values for one row the last one stays; where
 * there are more threads, each value looks for a later one. */
#pragma once

#include "kernels/lib/clip.h"
#include "kernels/lib/collective.h"
#include "kernels/lib/slot.h"
#include "kernels/replay/field_copy.h"

/* Whether a later value is for the same row. Every lane of a warp must call it. */
GPUR_FN int gpur_write_field_is_repeated(gpur_thread at, const gpur_write_field_args *a, int64_t i)
{
    uint64_t later = 0;
    if (!gpur_is_parallel() && at.blocks == 1)
        return 0;
    for (int64_t k = i + 1 + gpur_lane(at); k < a->count; k += GPUR_WARP)
        later |= a->ids[k] == a->ids[i];
    return gpur_warp_sum_u64(at, later) != 0;
}

GPUR_FN void gpur_write_field_value(gpur_thread at, const gpur_write_field_args *a, int64_t i, int64_t slot)
{
    const gpur_field_copy *const copy = &a->copy;
    const unsigned char *const from = copy->array + i * copy->array_pitch;
    unsigned char *const to = a->ring + slot * a->pitch + copy->offset;
    if (a->reward_clip > 0.0f && gpur_lane(at) == 0) {
        float reward;
        memcpy(&reward, from, sizeof reward);
        reward = gpur_clip(reward, a->reward_clip);
        memcpy(to, &reward, sizeof reward);
    }
    for (int32_t n = gpur_lane(at); n < copy->units && !(a->reward_clip > 0.0f); n += GPUR_WARP) {
        const int64_t byte = (int64_t)n << copy->shift;
        const gpur_u32x4 unit = gpur_load_unit(from + byte, copy->shift);
        gpur_store_unit(to + byte, copy->flags ? gpur_unit_normalize_flags(unit) : unit, copy->shift);
    }
}

GPUR_KERNEL(write_field)
{
    const gpur_span rows = gpur_warp_rows(at, a->count);
    const gpur_window window = *a->window;
    uint64_t stale = 0;
    for (int64_t i = rows.first; i < rows.last; i += rows.step) {
        const int64_t slot = gpur_slot_of_id(&window, a->turn, a->capacity, a->ids[i]);
        stale += slot < 0;
        if (slot >= 0 && !gpur_write_field_is_repeated(at, a, i))
            gpur_write_field_value(at, a, i, slot);
    }
    if (a->stale && stale && gpur_lane(at) == 0)
        gpur_atomic_add_u64(a->stale, stale);
}
