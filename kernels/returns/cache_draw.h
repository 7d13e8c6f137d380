/* SPDX-License-Identifier: MIT */
/* Draws a batch of entries of the cache of returns: each once, or with replacement, or by direct prioritisation
 * [Daley & Amato 2019, section 4.3]. Arguments and shapes: gpur_cache_draw_args. */
#pragma once

#include "kernels/args_returns.h"
#include "kernels/lib/permutation.h"

enum {
    GPUR_CACHE_EPOCH_BITS = 20, /* of the number of a permutation: how many there are for a refresh */
    GPUR_CACHE_DRAWS = 64,      /* draws by priority until one is accepted, each with a probability of 1/2 or more if
                                   its entry is not missing */
};

GPUR_FN int64_t gpur_cache_permuted(const gpur_cache_draw_args *a, int64_t b)
{
    const gpur_cache_state *const state = a->state;
    const uint64_t k = (a->train->step - state->first_step) * (uint64_t)a->batch + (uint64_t)b;
    const uint64_t size = (uint64_t)a->size, epoch = k / size;
    const gpur_permutation permutation = gpur_permutation_of(
        a->seed, GPUR_RANDOM_RETURNS_DRAW, (state->first_step << GPUR_CACHE_EPOCH_BITS) + epoch, size);
    return (int64_t)gpur_permute(&permutation, k - epoch * size);
}

/* The weight of an entry in the draw by priority. */
GPUR_FN float gpur_cache_weight(const gpur_cache_draw_args *a, int64_t entry)
{
    const float error = a->error[entry], median = a->state->median, p = a->state->prioritization;
    if (error < 0.0f) /* GPUR_CACHE_NO_ERROR */
        return 0.0f;
    return error > median ? 1.0f + p : error < median ? 1.0f - p : 1.0f;
}

GPUR_FN int64_t gpur_cache_replaced(const gpur_cache_draw_args *a, int64_t b)
{
    int64_t entry = 0;
    for (int draw = 0; draw < GPUR_CACHE_DRAWS; draw++) {
        const gpur_u32x4 bits = gpur_random_bits(a->seed, GPUR_RANDOM_RETURNS_DRAW, a->train->step,
                                                 (uint32_t)draw * (uint32_t)a->batch + (uint32_t)b);
        const float most = 1.0f + a->state->prioritization;
        entry = (int64_t)gpur_random_below(bits, (uint64_t)a->size);
        if (!a->error || gpur_random_uniform(bits.v[2]) * most < gpur_cache_weight(a, entry))
            return entry;
    }
    return entry;
}

GPUR_KERNEL(cache_draw)
{
    const gpur_span s = gpur_grid_span(at, a->batch);
    for (int64_t b = s.first; b < s.last; b += s.step) {
        const int64_t i = a->draw ? gpur_cache_replaced(a, b) : gpur_cache_permuted(a, b);
        const gpur_cache_entry entry = a->entry[i];
        const int is_missing = entry.address == GPUR_CACHE_MISSING;
        a->id[b] = is_missing ? -1 : a->state->first_id + (int64_t)entry.address;
        a->value[b] = entry.value;
        if (!a->index)
            continue;
        a->index[b] = (int32_t)i;
        a->weight[b] = is_missing ? 0.0f : 1.0f;
        if (a->action_is_int64)
            ((int64_t *)a->action)[b] = a->cache_action[i];
        else
            ((int32_t *)a->action)[b] = a->cache_action[i];
    }
}
