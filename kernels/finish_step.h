/* SPDX-License-Identifier: MIT */
#ifndef GPUR_FINISH_STEP_H
#define GPUR_FINISH_STEP_H

#include "args_learn.h"
#include "fixed_sum.h"
#include "place.h"
#include "schedule.h"

/* What the step left behind, and what the next one will find. One block; thread 0 writes. */
GPUR_KERNEL(finish_step)
{
    gpur_train_state *const state = a->state;
    const float loss = gpur_fixed_sum(at, a->loss, a->batch) / (float)a->batch;
    const float q = gpur_fixed_sum(at, a->q_taken, a->batch) / (float)a->batch;
    const float norm = sqrtf(gpur_fixed_sum(at, a->partial, a->partials));
    const float invalid = gpur_fixed_sum(at, a->invalid, a->batch);
    if (at.block != 0 || at.thread != 0)
        return;
    if (a->window->count == 0) {
        state->skipped++;
        return;
    }
    state->loss = loss;
    state->loss_sum += (double)loss;
    state->mean_q = q;
    state->gradient_norm = norm;
    state->learning_rate = state->next_learning_rate;
    state->target_copies += state->copy_due;
    state->invalid_actions += (int64_t)invalid;
    state->step++;
    state->beta1_power *= (double)a->beta1;
    state->beta2_power *= (double)a->beta2;
    state->copy_due = ((int64_t)state->step + 1) % a->target_period == a->target_phase;
    state->next_learning_rate =
        gpur_schedule_value(a->rate_first, a->rate_last, a->rate_begin, a->rate_steps, (int64_t)state->step);
}

#endif
