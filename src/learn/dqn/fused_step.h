/* SPDX-License-Identifier: MIT */
/*
 * The fused step: one kernel that runs many whole train steps (kernels/fused/fused_train_steps.h). It works on the
 * arrays of the recorded step (learn/train_step.h), samples the same rows and continues from the same state, so a
 * learner may change from one to the other between any two steps. Losses agree up to the order of sums.
 *
 * For small networks with two dense layers below the output layer: on a GPU, launching their kernels takes longer than
 * running them.
 */
#pragma once

#include "learn/train_step.h"

/* Launch configuration; 0: chosen automatically. Benchmarks and tests may change it between two steps. It never changes
 * a result, not even by one bit. */
typedef struct gpur_fused_launch_config {
    int64_t blocks;
    int32_t threads; /* in a block */
    int64_t steps;   /* maximum per kernel launch */
} gpur_fused_launch_config;

typedef struct gpur_fused_step {
    const gpur_train_step *step; /* NULL: the learner has no fused step, and no other member is set */
    gpur_fused_train_steps_args args;
    gpur_fused_launch_config launch;
    int32_t first_splits;   /* splits of the sum (split-K) that is the gradient of the first layer's activations */
    float *first;           /* (first_splits, B, units) these partial sums, with the row pitch of the activations */
    float *gradient_splits; /* (args.k_splits, P) partial sums of the weights' gradient; NULL if args.k_splits is 1 */
} gpur_fused_step;

/* Replaces GPUR_STEP_AUTO in *step_kernel, and refuses GPUR_STEP_FUSED for a learner whose steps the kernel cannot run.
 * context->step is not read. */
gpur_status gpur_fused_step_choose(const gpur_part_context *context, int32_t *step_kernel);

/* The learner's part that is a gpur_fused_step. Its `connect` comes after that of the step. */
extern const gpur_part gpur_fused_step_part;

/* Requires the consumer lock. Enqueues `steps` train steps. The ring does not change between the steps of one kernel
 * launch. */
gpur_status gpur_fused_step_enqueue(const gpur_fused_step *fused, gpur_stream *stream, int64_t steps);
