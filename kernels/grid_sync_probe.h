/* SPDX-License-Identifier: MIT */
/* A test kernel for gpur_grid_sync: see gpur_grid_sync_probe_args. One grid sync a round is enough: a buffer that is
 * read in one round is overwritten in the next, after the sync in between. */
#pragma once

#include "kernels/args_replay.h"
#include "kernels/target/thread.h"

GPUR_KERNEL_COOPERATIVE(grid_sync_probe, 512)
{
    const gpur_span mine = gpur_grid_span(at, a->n);
    for (int32_t round = 0; round < a->rounds; round++) {
        const uint32_t *const in = a->buffers + round % 2 * a->n;
        uint32_t *const out = a->buffers + (round + 1) % 2 * a->n;
        const uint32_t salt = a->salts[round % GPUR_SYNC_PROBE_SALTS];
        for (int64_t i = mine.first; i < mine.last; i += mine.step) {
            const int64_t other = i + a->reach < a->n ? i + a->reach : i + a->reach - a->n;
            out[i] = 5 * in[i] + 2 * in[other] + salt;
        }
        gpur_grid_sync(at);
    }
}
