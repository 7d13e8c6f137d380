/* SPDX-License-Identifier: MIT */
/*
 * Whole train steps in one cooperative kernel, for a network of two layers below its last. It replaces a graph of
 * some twenty kernels and library calls by stages with grid syncs between them. The stages call the bodies of those
 * same kernels, except for the matrix products, whose tiles are shared out among the blocks. Arguments and shapes:
 * gpur_fused_train_steps_args.
 *
 * The last block ends a step while the next one is in its stage HIDDEN. Until then that step needs only its number,
 * which is counted apart from the state, in `sample_step`.
 *
 * Each body is called at one place only, except for the weight update. The compiler inlines it there, and a second call
 * would add a second copy of its instructions, which each multiprocessor would have to fetch in every step.
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

enum { GPUR_NORM_LOADS = 4 }; /* loads that a thread has in flight, of a chunk of the gradient */

GPUR_FN int gpur_is_last_block(gpur_thread at)
{
    return at.block == at.blocks - 1;
}

/* Number of tasks of a stage. */
GPUR_FN int32_t gpur_stage_tasks(const gpur_fused_train_steps_args *a, int stage)
{
    int32_t tasks = 0;
    for (int32_t p = a->first_gemm[stage]; p < a->first_gemm[stage + 1]; p++)
        tasks += gpur_tile_gemm_tasks(&a->gemms[p]);
    return tasks;
}

/* Task number `task` of a stage. */
GPUR_FN gpur_tile gpur_stage_tile(const gpur_fused_train_steps_args *a, int stage, int32_t task)
{
    int32_t p = a->first_gemm[stage];
    for (int32_t tasks; task >= (tasks = gpur_tile_gemm_tasks(&a->gemms[p])); p++)
        task -= tasks;
    return gpur_tile_of(&a->gemms[p], task);
}

/* Updates the weights, and biases, whose gradient this tile is. */
GPUR_FN void gpur_update_tile(gpur_thread at, const gpur_weight_update_args *a, const gpur_tile *tile)
{
    const uint32_t width = (uint32_t)(tile->columns + gpur_tile_has_sums(tile)), count = (uint32_t)tile->rows * width;
    if (*a->drawable == 0)
        return;
    const gpur_weight_update_rates rates = gpur_weight_update_prepare(at, a);
    gpur_barrier(at);
    for (uint32_t e = (uint32_t)at.thread; e < count; e += (uint32_t)at.threads) {
        const int32_t row = (int32_t)(e / width), column = (int32_t)(e % width);
        const float *const g = column < tile->columns ? gpur_tile_at(tile, row, column) : gpur_tile_sum_at(tile, row);
        const int64_t i = g - a->gradient;
        gpur_weight_update_span(a, (gpur_span){i, i + 1, 1}, rates);
    }
}

/* Whether the weight update runs in this stage. */
GPUR_FN int gpur_stage_has_update(const gpur_fused_train_steps_args *a, int stage)
{
    return stage == (a->update_before_norm ? GPUR_STAGE_FIRST_GRADIENT : GPUR_STAGE_UPDATE);
}

/* Computes this block's share of the tiles of all products of a stage. */
GPUR_FN void gpur_stage_gemms(gpur_thread at, const gpur_fused_train_steps_args *a, int stage)
{
    const gpur_span mine = gpur_block_rows(at, gpur_stage_tasks(a, stage));
    for (int64_t task = mine.first; task < mine.last; task += mine.step) {
        const gpur_tile tile = gpur_stage_tile(a, stage, (int32_t)task);
        if (gpur_is_parallel())
            gpur_tile_parallel(at, &tile);
        else
            gpur_tile_serial(&tile);
        if (gpur_stage_has_update(a, stage))
            gpur_update_tile(at, &a->first_update, &tile);
    }
}

/* Reserves the last block for work that only a single block can do; the others share the products. */
GPUR_FN gpur_thread gpur_reserve_last_block(gpur_thread at, int is_reserved)
{
    if (is_reserved && at.blocks >= GPUR_MIN_BLOCKS_TO_RESERVE)
        at.blocks--;
    return at;
}

/* The blocks that have no task of this stage, or all if most have one: then all share the other work evenly. A block
 * of number below 0 has a task, and no other work. */
GPUR_FN gpur_thread gpur_idle_blocks(gpur_thread at, const gpur_fused_train_steps_args *a, int stage)
{
    const int32_t tasks = gpur_stage_tasks(a, stage);
    if (2 * tasks <= at.blocks)
        at.block -= tasks, at.blocks -= tasks;
    return at;
}

/* Loads `count` numbers of the gradient from number `first` on. If it has splits, adds them up and stores the gradient.
 */
GPUR_FN void gpur_load_gradient(gpur_thread at, const gpur_fused_train_steps_args *a, int64_t first, int64_t count,
                                float *to)
{
    const float *const from = (a->gradient_splits ? a->gradient_splits : a->gradient) + first;
    for (int64_t i = at.thread; i < count; i += GPUR_NORM_LOADS * at.threads) {
        float sum[GPUR_NORM_LOADS];
        for (int r = 0; r < GPUR_NORM_LOADS; r++)
            sum[r] = i + r * at.threads < count ? from[i + r * at.threads] : 0.0f;
        for (int32_t split = 1; split < a->k_splits; split++)
            for (int r = 0; r < GPUR_NORM_LOADS; r++)
                if (i + r * at.threads < count)
                    sum[r] += from[split * a->norm.count + i + r * at.threads];
        for (int r = 0; r < GPUR_NORM_LOADS; r++) {
            if (i + r * at.threads < count)
                to[i + r * at.threads] = sum[r];
            if (i + r * at.threads < count && a->gradient_splits)
                a->gradient[first + i + r * at.threads] = sum[r];
        }
    }
}

/* The work of gradient_norm by one warp of a block, from a copy in shared memory. */
GPUR_FN void gpur_stage_norm(gpur_thread at, const gpur_fused_train_steps_args *a, int stage)
{
    GPUR_SHARED(gpur_quad, quads, GPUR_NORM_CHUNK / 4);
    float *const chunk = quads[0].v;
    const gpur_gradient_norm_args *const norm = &a->norm;
    const gpur_thread idle = gpur_idle_blocks(at, a, stage);
    const gpur_span chunks = gpur_block_rows(idle, (norm->count + GPUR_NORM_CHUNK - 1) / GPUR_NORM_CHUNK);
    for (int64_t c = chunks.first; c < chunks.last && idle.block >= 0; c += chunks.step) {
        const int64_t first = c * GPUR_NORM_CHUNK, left = norm->count - first;
        const int64_t count = left < GPUR_NORM_CHUNK ? left : GPUR_NORM_CHUNK;
        gpur_load_gradient(at, a, first, count, chunk);
        gpur_barrier(at);
        if (at.thread < GPUR_WARP)
            gpur_norm_write(at, norm, c, chunk, count);
        gpur_barrier(at);
    }
}

/* Whether the norm of a gradient is computed in this stage of step number `step` of the launch: of this step's, or of
 * the one before. */
GPUR_FN int gpur_stage_has_norm(const gpur_fused_train_steps_args *a, int stage, int64_t step)
{
    return a->update_before_norm ? stage == GPUR_STAGE_FIRST && step > 0 : stage == GPUR_STAGE_NORM;
}

GPUR_FN void gpur_stage_update(gpur_thread at, const gpur_fused_train_steps_args *a, int stage)
{
    const gpur_thread idle = gpur_idle_blocks(at, a, stage);
    if (idle.block >= 0)
        gpur_weight_update(idle, &a->weight_update);
}

/* The work of a stage other than matrix products. */
GPUR_FN void gpur_stage_body(gpur_thread at, const gpur_fused_train_steps_args *a, int stage)
{
    if (stage == GPUR_STAGE_SAMPLE)
        gpur_priority_sample(at, &a->sample);
    else if (stage == GPUR_STAGE_GATHER)
        gpur_gather_by_blocks(at, &a->gather);
    else if (stage == GPUR_STAGE_FIRST && a->by_priority)
        gpur_priority_weights(at, &a->weights);
    else if (stage == GPUR_STAGE_HEADS)
        gpur_fused_heads(at, a);
    else if (stage == GPUR_STAGE_GRADIENTS && a->by_priority && gpur_is_last_block(at))
        gpur_priority_update(gpur_as_single_block(at), &a->priorities);
    if (gpur_stage_has_update(a, stage))
        gpur_stage_update(at, a, stage);
}

/* After the last step only the work is left that ends it. */
GPUR_FN int gpur_stage_is_enabled(const gpur_fused_train_steps_args *a, int stage, int64_t step)
{
    if (step == a->steps)
        return stage == GPUR_STAGE_FIRST || stage == GPUR_STAGE_HIDDEN;
    if (stage == GPUR_STAGE_SAMPLE)
        return a->by_priority;
    return !a->update_before_norm || stage < GPUR_STAGE_NORM;
}

GPUR_FN void gpur_fused_stage(gpur_thread at, const gpur_fused_train_steps_args *a, int stage, int64_t step)
{
    const int is_reserved = stage == GPUR_STAGE_GRADIENTS && a->by_priority;
    const gpur_thread shared = gpur_reserve_last_block(at, is_reserved);
    if (gpur_stage_has_norm(a, stage, step))
        gpur_stage_norm(at, a, stage);
    if (stage == GPUR_STAGE_HIDDEN && step > 0 && gpur_is_last_block(at))
        gpur_finish_step(gpur_as_single_block(at), &a->finish);
    if (step < a->steps) {
        gpur_stage_body(at, a, stage);
        if (at.block < shared.blocks)
            gpur_stage_gemms(shared, a, stage);
        if (stage == GPUR_STAGE_HIDDEN && at.block == 0 && at.thread == 0)
            ++*a->sample_step;
    }
    gpur_grid_sync(at);
}

GPUR_KERNEL_COOPERATIVE(fused_train_steps, 256)
{
    if (at.block == 0 && at.thread == 0)
        *a->sample_step = a->finish.state->step;
    gpur_grid_sync(at);
    for (int64_t step = 0; step <= a->steps; step++)
        for (int stage = 0; stage < GPUR_STAGE_COUNT; stage++)
            if (gpur_stage_is_enabled(a, stage, step))
                gpur_fused_stage(at, a, stage, step);
}

#endif
