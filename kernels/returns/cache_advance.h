/* SPDX-License-Identifier: MIT */
/* Begins a refresh of the cache of returns, goes on to its next chunk, or ends it. Arguments:
 * gpur_cache_advance_args. */
#pragma once

#include "kernels/args_returns.h"
#include "kernels/lib/collective.h"
#include "kernels/lib/schedule.h"
#include "kernels/target/thread.h"

/* The rows of the chunk that is done that were found, of those that have an entry, in every thread of the block. */
GPUR_FN int64_t gpur_cache_found(gpur_thread at, const gpur_cache_advance_args *a)
{
    const int64_t left = a->size - a->state->next_entry;
    const gpur_span span = gpur_block_span(at, left < a->rows ? left : a->rows);
    uint64_t found = 0;
    for (int64_t i = span.first; i < span.last; i += span.step)
        found += a->id[i] >= 0;
    return (int64_t)gpur_block_sum_u64(at, found);
}

/* One block. The draws of blocks of two refreshes have different numbers if a train step was between them. */
GPUR_KERNEL(cache_advance)
{
    gpur_cache_state *const state = a->state;
    if (at.block != 0)
        return;
    const int64_t found = a->what == GPUR_REFRESH_GOES_ON ? gpur_cache_found(at, a) : 0;
    gpur_barrier(at); /* all threads have read the state */
    if (at.thread != 0)
        return;
    if (a->what == GPUR_REFRESH_GOES_ON) {
        state->block_step++;
        state->next_entry += a->rows;
        state->found += found;
        return;
    }
    if (a->what == GPUR_REFRESH_ENDS) {
        a->train->empty_refreshes += state->found == 0;
        return;
    }
    state->first_id = a->window->first_id;
    state->first_step = a->train->step;
    state->block_step = a->train->step * (uint64_t)a->chunks;
    state->next_entry = 0;
    state->found = 0;
    state->prioritization = gpur_schedule_value(a->p_first, a->p_last, a->p_begin, a->p_steps, (int64_t)a->train->step);
    state->median = 0.0f;
}
