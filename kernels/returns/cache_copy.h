/* SPDX-License-Identifier: MIT */
/* Copies observations between the cache of returns and a batch, 16 bytes at a time. Arguments and shapes:
 * gpur_cache_copy_args. */
#pragma once

#include "kernels/args_returns.h"
#include "kernels/target/thread.h"

GPUR_KERNEL(cache_copy)
{
    const int64_t left = a->size - a->state->next_entry, bytes = 16 * a->units;
    const gpur_span rows = gpur_block_rows(at, a->index || a->rows < left ? a->rows : left);
    const gpur_span units = gpur_block_span(at, a->units);
    for (int64_t b = rows.first; b < rows.last; b += rows.step) {
        const int64_t entry = a->index ? a->index[b] : a->state->next_entry + b;
        gpur_u32x4 *const cache = (gpur_u32x4 *)(void *)(a->cache + entry * bytes);
        gpur_u32x4 *const batch = (gpur_u32x4 *)(void *)(a->batch + b * bytes);
        for (int64_t i = units.first; i < units.last; i += units.step) {
            if (a->index)
                batch[i] = cache[i];
            else
                cache[i] = batch[i];
        }
    }
}
