/* SPDX-License-Identifier: MIT */
/* Gradient to weights: clipping, the optimiser, the target copy, and the state that moves on with each step. */
#ifndef GPUR_LEARN_OPTIMIZER_H
#define GPUR_LEARN_OPTIMIZER_H

#include "device/device.h"
#include "gpureplay/learner.h"
#include "base/arena.h"

typedef struct gpur_optimizer {
    gpur_device *device;
    gpur_optimizer_config config;
    int64_t target_period;
    int64_t target_phase;               /* of the period; the steps at it end in a copy */
    int64_t count;                      /* P: weights, padding included */
    int64_t partials;                   /* sums of squares that the norm is made of */
    float *weights, *target, *gradient; /* (P) */
    float *mean, *square, *velocity;    /* (P) or NULL */
    float *partial;                     /* (partials) of the gradient */
    float *clipped;                     /* (partials) of the gradient clipped by value; NULL: it is not */
    gpur_train_state *state;            /* (1) device memory */
    const gpur_window *window;          /* (1) device memory; empty: a step changes nothing */
} gpur_optimizer;

gpur_status gpur_optimizer_check(const gpur_optimizer_config *config);
void gpur_optimizer_open(gpur_optimizer *optimizer, gpur_device *device, const gpur_learner_config *config,
                         int64_t count);
void gpur_optimizer_place(gpur_optimizer *optimizer, gpur_arena *arena);

/* Slots, counters and target as before the first step, from the weights (P) in host memory. Waits. */
gpur_status gpur_optimizer_reset(gpur_optimizer *optimizer, gpur_stream *stream, const float *weights);

/* What td_error left behind, a number a row (batch): averaged or counted at the end of the step. */
typedef struct gpur_step_results {
    const float *loss, *q_taken, *invalid;
    int64_t batch;
} gpur_step_results;

/* What its three kernels are told, in their order. */
gpur_gradient_norm_args gpur_optimizer_norm(const gpur_optimizer *optimizer);
gpur_update_args gpur_optimizer_update(const gpur_optimizer *optimizer);
gpur_finish_step_args gpur_optimizer_finish(const gpur_optimizer *optimizer, const gpur_step_results *results);

/* Enqueues the update, and then the end of the step. */
gpur_status gpur_optimizer_step(const gpur_optimizer *optimizer, gpur_stream *stream, const gpur_step_results *results);

#endif
