/* SPDX-License-Identifier: MIT */
/* Ends a train step: writes its mean loss, mean Q and gradient norm to the state, notes whether the step has spoiled
 * the network, and advances the state to the next step. Arguments and shapes: gpur_finish_step_args. */
#pragma once

#include "kernels/args_learn.h"
#include "kernels/lib/collective.h"
#include "kernels/target/thread.h"
#include "kernels/lib/schedule.h"

/* The sums at the end of a step. */
enum {
    GPUR_FINISH_LOSS = 0,
    GPUR_FINISH_Q = 1,
    GPUR_FINISH_NORM = 2,
    GPUR_FINISH_INVALID = 3,
    GPUR_FINISH_MISSING = 4,
    GPUR_FINISH_SUMS = 5,
};

/* The numbers of a sum; NULL: there are none. */
GPUR_FN const float *gpur_finish_numbers(const gpur_finish_step_args *a, int which)
{
    return which == GPUR_FINISH_LOSS      ? a->loss
           : which == GPUR_FINISH_Q       ? a->q_taken
           : which == GPUR_FINISH_NORM    ? a->partial
           : which == GPUR_FINISH_INVALID ? a->invalid
                                          : a->missing;
}

/* Sum of x (n), in every lane of the warp, in an order that no launch shape changes. */
GPUR_FN float gpur_finish_sum(gpur_thread at, const float *x, int64_t n)
{
    enum { RUNS = GPUR_WARP == 1 ? 32 : 4 }; /* sums of a thread, whose loads are in flight together */
    float sum[RUNS] = {0}, total = 0.0f;
    for (int64_t first = gpur_lane(at); first < n; first += RUNS * GPUR_WARP)
        for (int r = 0; r < RUNS; r++)
            sum[r] += first + r * GPUR_WARP < n ? x[first + r * GPUR_WARP] : 0.0f;
    for (int r = 0; r < RUNS; r++)
        total += sum[r];
    return gpur_warp_sum_f32(at, total);
}

/* Computes all sums, each by a warp. Every thread must call it. */
GPUR_FN void gpur_finish_sums(gpur_thread at, const gpur_finish_step_args *a, float *sums)
{
    const int warps = at.threads / GPUR_WARP;
    for (int which = at.thread / GPUR_WARP; which < GPUR_FINISH_SUMS; which += warps) {
        const float *const x = gpur_finish_numbers(a, which);
        const int64_t n = which == GPUR_FINISH_NORM ? a->partials : a->batch;
        const float sum = gpur_finish_sum(at, x, x ? n : 0);
        if (gpur_lane(at) == 0)
            sums[which] = sum;
    }
    gpur_barrier(at);
}

/* Returns the state of the next step, but for what follows from the sums. */
GPUR_FN gpur_train_state gpur_finish_advance(const gpur_finish_step_args *a, gpur_train_state state)
{
    if (state.diverged_at == 0)
        state.learning_rate = state.next_learning_rate;
    state.target_copies += state.copy_due;
    state.step++;
    state.beta1_power *= (double)a->beta1;
    state.beta2_power *= (double)a->beta2;
    state.copy_due = ((int64_t)state.step + 1) % a->target_period == a->target_phase;
    state.next_learning_rate =
        gpur_schedule_value(a->rate_first, a->rate_last, a->rate_begin, a->rate_steps, (int64_t)state.step);
    return state;
}

/* 1: the network is worth nothing after this step. Its Q values are not finite; or its gradient has a NaN, which the
 * update has spread; or its gradient is infinite and nothing clips it, so that the optimizer's mean squares are
 * infinite from now on, and weights become NaN or move no more. An infinite loss alone says nothing of that: the
 * gradient of Huber's loss is at most 1, and an infinite norm that is clipped leaves the weights as they are. Where it
 * does not, the Q values of the next step tell. */
GPUR_FN int gpur_finish_is_spoiled(const gpur_finish_step_args *a, const gpur_train_state *state)
{
    const float norm = state->gradient_norm;
    return !(fabsf(state->mean_q) < INFINITY) || !(norm < INFINITY || (a->clips && norm == INFINITY));
}

/* Writes the numbers of a step to the state. The first step that spoils the network is noted, and its numbers stay:
 * those after it say nothing. Without losses of rows, as of an actor, the loss is minus the mean Q. */
GPUR_FN void gpur_finish_note(const gpur_finish_step_args *a, const float *sums, gpur_train_state *state)
{
    if (state->diverged_at > 0)
        return;
    state->loss = sums[GPUR_FINISH_LOSS] / (float)a->batch;
    state->mean_q = sums[GPUR_FINISH_Q] / (float)a->batch;
    state->gradient_norm = sqrtf(sums[GPUR_FINISH_NORM]);
    const int is_finite = fabsf(state->loss) < INFINITY;
    if (is_finite)
        state->loss_sum += (double)state->loss;
    else
        state->infinite_losses++;
    if (gpur_finish_is_spoiled(a, state))
        state->diverged_at = state->step;
    else if (is_finite)
        state->finite_loss = a->loss ? state->loss : -state->mean_q;
}

/* One block. Its last thread writes the state, most of which it computes first, while the others wait for what they
 * add. Without a row to draw only `skipped` changes. */
GPUR_KERNEL(finish_step)
{
    GPUR_SHARED(float, sums, GPUR_FINISH_SUMS);
    const int is_writer = at.block == 0 && at.thread == at.threads - 1;
    gpur_train_state next;
    memset(&next, 0, sizeof next);
    const int is_empty = is_writer && *a->drawable == 0;
    if (is_writer)
        next = gpur_finish_advance(a, *a->state);
    gpur_finish_sums(at, a, sums);
    if (is_writer) {
        next.invalid_actions += (int64_t)sums[GPUR_FINISH_INVALID];
        next.missing_rows += (int64_t)sums[GPUR_FINISH_MISSING];
        gpur_finish_note(a, sums, &next);
    }
    gpur_barrier(at); /* in a fused step the memory of the sums is used again from here on */
    if (!is_writer)
        return;
    if (is_empty)
        a->state->skipped++;
    else
        *a->state = next;
}
