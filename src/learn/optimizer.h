/* SPDX-License-Identifier: MIT */
/* Applies a gradient to the weights: clipping, optimizer, target copy, and the training state of the next step. */
#pragma once

#include "device/device.h"
#include "gpureplay/learner.h"
#include "base/arena.h"
#include "learn/network/params.h"

typedef struct gpur_optimizer {
    gpur_device *device;
    const gpur_params *params;
    gpur_optimizer_config config;
    int32_t has_target; /* 0: no target network */
    int64_t target_period;
    int64_t target_phase;               /* step n, from 1 on, ends in a target copy if n % target_period is this */
    float target_rate;                  /* a copy is target += target_rate (weights - target) */
    int64_t count;                      /* P: weights, padding included */
    int64_t partials;                   /* number of partial sums of squares: one per GPUR_NORM_CHUNK weights */
    float *weights, *target, *gradient; /* (P); the first two may have copies in bfloat16 behind them: gpur_params_bf16;
                                           target NULL: there is no target network */
    float *mean, *square, *velocity;    /* (P) or NULL */
    float *partial;                     /* (partials) sums of squares of the gradient */
    float *clipped;                     /* (partials) the same after clipping by value; NULL: no clip_value */
    gpur_train_state *state;            /* (1) device memory */
    const int64_t *drawable;            /* (1) device memory: rows to draw; if it is 0, a step changes nothing */
} gpur_optimizer;

gpur_status gpur_optimizer_check(const gpur_optimizer_config *config);

/* Opens an optimizer without a target network. */
void gpur_optimizer_open(gpur_optimizer *optimizer, gpur_device *device, const gpur_optimizer_config *config,
                         const gpur_params *params);

/* Adds a target network, to which weights are copied at `rate` after steps period, 2 period, ..., or with `first` 1
 * after steps 1, period + 1, ... Must come before gpur_optimizer_assign. */
void gpur_optimizer_set_target(gpur_optimizer *optimizer, int64_t period, int32_t first, float rate);

/* Places all arrays. `weights`: the weights of another optimizer, which this one changes, too; NULL: places its own. */
void gpur_optimizer_assign(gpur_optimizer *optimizer, gpur_arena *arena, float *weights);

/* Copies `weights`, (P) in host memory, to the weights and the target network, and resets moments, gradient and
 * counters to what they are before the first step. Waits. */
gpur_status gpur_optimizer_reset(gpur_optimizer *optimizer, gpur_stream *stream, const float *weights);

/* Enqueues the copy of `weights`, (P) in host memory, to the weights and the target network. */
gpur_status gpur_optimizer_write(const gpur_optimizer *optimizer, gpur_stream *stream, const float *weights);

/* Enqueues what must follow any write of the weights or the target other than a train step's: gpur_params_round. */
gpur_status gpur_optimizer_round(const gpur_optimizer *optimizer, gpur_stream *stream);

/* Outputs of td_error, (batch) each. The end of the step averages `loss` and `q_taken`, and counts `invalid` and
 * `missing`. */
typedef struct gpur_train_step_results {
    const float *loss, *q_taken, *invalid;
    const float *missing; /* NULL: no row is missing */
    int64_t batch;
} gpur_train_step_results;

/* Return the arguments of the three kernels of a step, in launch order. */
gpur_gradient_norm_args gpur_optimizer_norm(const gpur_optimizer *optimizer);
gpur_weight_update_args gpur_optimizer_update(const gpur_optimizer *optimizer);
gpur_finish_step_args gpur_optimizer_finish(const gpur_optimizer *optimizer, const gpur_train_step_results *results);

/* Enqueues the three kernels: gradient norm, weight update, end of the step. */
gpur_status gpur_optimizer_step(const gpur_optimizer *optimizer, gpur_stream *stream,
                                const gpur_train_step_results *results);
