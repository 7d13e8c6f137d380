/* SPDX-License-Identifier: MIT */
/* Begins a refresh of the cache of returns, or goes on to its next chunk. Arguments: gpur_cache_advance_args. */
#pragma once

#include "kernels/args_returns.h"
#include "kernels/lib/schedule.h"
#include "kernels/target/thread.h"

/* One block. The draws of blocks of two refreshes have different numbers if a train step was between them. */
GPUR_KERNEL(cache_advance)
{
    gpur_cache_state *const state = a->state;
    if (at.block != 0 || at.thread != 0)
        return;
    if (!a->begins) {
        state->block_step++;
        state->next_entry += a->rows;
        return;
    }
    state->first_id = a->window->first_id;
    state->first_step = a->train->step;
    state->block_step = a->train->step * (uint64_t)a->chunks;
    state->next_entry = 0;
    state->prioritization = gpur_schedule_value(a->p_first, a->p_last, a->p_begin, a->p_steps, (int64_t)a->train->step);
    state->median = 0.0f;
}
