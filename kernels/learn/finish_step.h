/* SPDX-License-Identifier: MIT */
/* Ends a train step: writes its mean loss, mean Q and gradient norm to the state and advances the state to the next
 * step. Arguments and shapes: gpur_finish_step_args. */
#pragma once

#include "kernels/args_learn.h"
#include "kernels/lib/fixed_sum.h"
#include "kernels/target/thread.h"
#include "kernels/lib/schedule.h"

/* The sums at the end of a step. The order of each is that of gpur_fixed_sum. */
enum {
    GPUR_FINISH_LOSS = 0,
    GPUR_FINISH_Q = 1,
    GPUR_FINISH_NORM = 2,
    GPUR_FINISH_INVALID = 3,
    GPUR_FINISH_MISSING = 4,
    GPUR_FINISH_SUMS = 5,
    GPUR_FINISH_LANES = GPUR_FINISH_SUMS * GPUR_SUM_LANES,
};

GPUR_FN float gpur_finish_lane(const gpur_finish_step_args *a, int which, int lane)
{
    const float *const x = which == GPUR_FINISH_LOSS      ? a->loss
                           : which == GPUR_FINISH_Q       ? a->q_taken
                           : which == GPUR_FINISH_NORM    ? a->partial
                           : which == GPUR_FINISH_INVALID ? a->invalid
                                                          : a->missing;
    return !x ? 0.0f : gpur_lane_sum(x, which == GPUR_FINISH_NORM ? a->partials : a->batch, lane);
}

/* One block: its threads compute all sums at the same time, and thread 0 writes the state. If the window is empty,
 * only `skipped` changes. */
GPUR_KERNEL(finish_step)
{
    GPUR_SHARED(float, lanes, GPUR_FINISH_LANES);
    float sums[GPUR_FINISH_SUMS] = {0};
    gpur_train_state *const state = a->state;
    for (int i = at.thread; i < GPUR_FINISH_LANES; i += at.threads)
        lanes[i] = gpur_finish_lane(a, i / GPUR_SUM_LANES, i % GPUR_SUM_LANES);
    gpur_barrier(at);
    for (int which = 0; which < GPUR_FINISH_SUMS && at.thread == 0; which++)
        sums[which] = gpur_lanes_total(lanes + which * GPUR_SUM_LANES);
    gpur_barrier(at);
    if (at.block != 0 || at.thread != 0)
        return;
    if (a->window->count == 0) {
        state->skipped++;
        return;
    }
    state->loss = sums[GPUR_FINISH_LOSS] / (float)a->batch;
    state->loss_sum += (double)state->loss;
    state->mean_q = sums[GPUR_FINISH_Q] / (float)a->batch;
    state->gradient_norm = sqrtf(sums[GPUR_FINISH_NORM]);
    state->learning_rate = state->next_learning_rate;
    state->target_copies += state->copy_due;
    state->invalid_actions += (int64_t)sums[GPUR_FINISH_INVALID];
    state->missing_rows += (int64_t)sums[GPUR_FINISH_MISSING];
    state->step++;
    state->beta1_power *= (double)a->beta1;
    state->beta2_power *= (double)a->beta2;
    state->copy_due = ((int64_t)state->step + 1) % a->target_period == a->target_phase;
    state->next_learning_rate =
        gpur_schedule_value(a->rate_first, a->rate_last, a->rate_begin, a->rate_steps, (int64_t)state->step);
}
