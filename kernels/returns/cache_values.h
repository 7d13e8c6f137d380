/* SPDX-License-Identifier: MIT */
/* Stores what a refresh of the cache of returns needs of each row: v(s') = max_a Q(s', a) and, for some estimators,
 * Q(s, a) and whether a is greedy. Arguments and shapes: gpur_cache_values_args. */
#pragma once

#include "kernels/args_returns.h"
#include "kernels/learn/head.h"
#include "kernels/target/thread.h"

/* max_a Q of a row; `q` (A) gets all values. */
GPUR_FN float gpur_cache_row_maximum(const gpur_cache_values_args *a, const float *z, float *q)
{
    gpur_values_forward_row(a->head, a->num_actions, z, a->bias, q);
    return q[gpur_argmax_action(a->num_actions, q)];
}

GPUR_FN void gpur_cache_store_taken(const gpur_cache_values_args *a, int64_t row, int64_t entry, int64_t action)
{
    float *const q = a->q + row * a->num_actions;
    const float most = gpur_cache_row_maximum(a, a->z + row * a->z_pitch, q);
    a->taken[entry] = action < 0 ? 0.0f : q[action];
    if (a->greedy)
        a->greedy[entry] = action >= 0 && q[action] >= most;
}

GPUR_KERNEL(cache_values)
{
    const int64_t first = a->state->next_entry, left = a->size - first;
    const gpur_span s = gpur_grid_span(at, left < a->rows ? left : a->rows);
    for (int64_t i = s.first; i < s.last; i += s.step) {
        const int64_t id = a->id[i];
        gpur_cache_entry *const entry = &a->entry[first + i];
        entry->address = id < 0 ? GPUR_CACHE_MISSING : (uint32_t)(id - a->state->first_id);
        entry->value = gpur_cache_row_maximum(a, a->z_next + i * a->z_pitch, a->q + i * a->num_actions);
        if (!a->action)
            continue;
        int64_t action = a->action_is_int64 ? ((const int64_t *)a->action)[i] : ((const int32_t *)a->action)[i];
        action = action >= 0 && action < a->num_actions ? action : -1;
        if (a->taken)
            gpur_cache_store_taken(a, i, first + i, action);
        if (a->cache_action)
            a->cache_action[first + i] = (int32_t)action;
    }
}
