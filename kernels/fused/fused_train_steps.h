/* SPDX-License-Identifier: MIT */
/*
 * Whole train steps in one cooperative kernel, for a network of two layers below its last. It replaces a graph of
 * some twenty kernels and library calls by stages with grid syncs between them. The stages call the bodies of those
 * same kernels, except for the matrix products, whose tiles are shared out among the blocks. Arguments and shapes:
 * gpur_fused_train_steps_args.
 *
 * The last block ends a step at the beginning of the next step's first stage, without a grid sync in between. That
 * stage needs only the number of its own step, which is counted apart from the state, in `sample_step`.
 *
 * Each body is called at one place only. The compiler inlines it there, and a second call would add a second copy of
 * its instructions, which each multiprocessor would have to fetch in every step.
 */
#ifndef GPUR_KERNELS_FUSED_FUSED_TRAIN_STEPS_H
#define GPUR_KERNELS_FUSED_FUSED_TRAIN_STEPS_H

#include "kernels/learn/finish_step.h"
#include "kernels/replay/gather.h"
#include "kernels/learn/gradient_norm.h"
#include "kernels/fused/fused_heads.h"
#include "kernels/priority/priority_sample.h"
#include "kernels/priority/priority_update.h"
#include "kernels/priority/priority_weights.h"
#include "kernels/fused/tile_serial.h"
#include "kernels/fused/tile_block.h"
#include "kernels/learn/weight_update.h"

/* With this many blocks or more, one of them may be reserved for work that only a single block can do. */
enum { GPUR_MIN_BLOCKS_TO_RESERVE = 4 };

GPUR_FN int gpur_is_last_block(gpur_thread at)
{
    return at.block == at.blocks - 1;
}

/* Returns `at` as if this block were the only one, for a body that is written for a launch of one block. */
GPUR_FN gpur_thread gpur_as_single_block(gpur_thread at)
{
    at.block = 0, at.blocks = 1;
    return at;
}

/* Computes this block's share of the tiles of all products of a stage. */
GPUR_FN void gpur_stage_gemms(gpur_thread at, const gpur_fused_train_steps_args *a, int stage)
{
    int64_t tasks = 0;
    for (int32_t p = 0; p < a->gemm_count; p++)
        tasks += a->gemms[p].stage == stage ? gpur_tile_gemm_tasks(&a->gemms[p]) : 0;
    const gpur_span mine = gpur_block_rows(at, tasks);
    for (int64_t task = mine.first; task < mine.last; task += mine.step) {
        int64_t index = task;
        int32_t p = 0;
        for (; a->gemms[p].stage != stage || index >= gpur_tile_gemm_tasks(&a->gemms[p]); p++)
            index -= a->gemms[p].stage == stage ? gpur_tile_gemm_tasks(&a->gemms[p]) : 0;
        const gpur_tile tile = gpur_tile_of(&a->gemms[p], index);
        if (gpur_is_parallel())
            gpur_tile_parallel(at, &tile);
        else
            gpur_tile_serial(&tile);
    }
}

/* Reserves the last block for work that only a single block can do; the others share the products. */
GPUR_FN gpur_thread gpur_reserve_last_block(gpur_thread at, int is_reserved)
{
    if (is_reserved && at.blocks >= GPUR_MIN_BLOCKS_TO_RESERVE)
        at.blocks--;
    return at;
}

/* Adds up the splits of the gradient. A block does so for the chunks that gradient_norm gives it, so that no grid
 * sync is needed in between. */
GPUR_FN void gpur_sum_gradient(gpur_thread at, const gpur_fused_train_steps_args *a)
{
    const int64_t count = a->norm.count;
    const gpur_span chunks = gpur_block_rows(at, (count + GPUR_NORM_CHUNK - 1) / GPUR_NORM_CHUNK);
    for (int64_t chunk = chunks.first; chunk < chunks.last; chunk += chunks.step) {
        const int64_t first = chunk * GPUR_NORM_CHUNK, end = first + GPUR_NORM_CHUNK;
        const int64_t last = end < count ? end : count;
        for (int64_t i = first + at.thread; i < last; i += at.threads) {
            float sum = a->gradient_splits[i];
            for (int32_t split = 1; split < a->k_splits; split++)
                sum += a->gradient_splits[split * count + i];
            a->gradient[i] = sum;
        }
    }
    gpur_barrier(at);
}

GPUR_FN void gpur_stage_norm(gpur_thread at, const gpur_fused_train_steps_args *a)
{
    if (a->gradient_splits)
        gpur_sum_gradient(at, a);
    gpur_gradient_norm(at, &a->norm);
}

/* Whether the weight update runs in this stage. It waits for the norm only if it reads it. */
GPUR_FN int gpur_stage_has_update(const gpur_fused_train_steps_args *a, int stage)
{
    return stage == (a->update_before_norm ? GPUR_STAGE_NORM : GPUR_STAGE_UPDATE);
}

/* The work of a stage other than matrix products. */
GPUR_FN void gpur_stage_body(gpur_thread at, const gpur_fused_train_steps_args *a, int stage)
{
    if (stage == GPUR_STAGE_SAMPLE)
        gpur_priority_sample(at, &a->sample);
    else if (stage == GPUR_STAGE_GATHER)
        gpur_gather(at, &a->gather);
    else if (stage == GPUR_STAGE_FIRST && a->by_priority)
        gpur_priority_weights(at, &a->weights);
    else if (stage == GPUR_STAGE_HEADS)
        gpur_fused_heads(at, a);
    else if (stage == GPUR_STAGE_GRADIENTS && a->by_priority && gpur_is_last_block(at))
        gpur_priority_update(gpur_as_single_block(at), &a->priorities);
    else if (stage == GPUR_STAGE_NORM)
        gpur_stage_norm(at, a);
    if (gpur_stage_has_update(a, stage))
        gpur_weight_update(at, &a->weight_update);
}

GPUR_FN int gpur_stage_is_enabled(const gpur_fused_train_steps_args *a, int stage)
{
    if (stage == GPUR_STAGE_SAMPLE)
        return a->by_priority;
    return stage != GPUR_STAGE_UPDATE || !a->update_before_norm;
}

GPUR_FN void gpur_fused_stage(gpur_thread at, const gpur_fused_train_steps_args *a, int stage)
{
    const int is_reserved = stage == GPUR_STAGE_GRADIENTS && a->by_priority;
    const gpur_thread shared = gpur_reserve_last_block(at, is_reserved);
    gpur_stage_body(at, a, stage);
    if (at.block < shared.blocks)
        gpur_stage_gemms(shared, a, stage);
    if (stage == GPUR_STAGE_FIRST && at.block == 0 && at.thread == 0)
        ++*a->sample_step;
    gpur_grid_sync(at);
}

GPUR_KERNEL_COOPERATIVE(fused_train_steps, 256)
{
    const int first_stage = a->by_priority ? GPUR_STAGE_SAMPLE : GPUR_STAGE_GATHER;
    if (at.block == 0 && at.thread == 0)
        *a->sample_step = a->finish.state->step;
    gpur_grid_sync(at);
    for (int64_t step = 0; step <= a->steps; step++) {
        if (step > 0 && gpur_is_last_block(at))
            gpur_finish_step(gpur_as_single_block(at), &a->finish);
        for (int stage = first_stage; stage < GPUR_STAGE_COUNT && step < a->steps; stage++)
            if (gpur_stage_is_enabled(a, stage))
                gpur_fused_stage(at, a, stage);
    }
}

#endif
