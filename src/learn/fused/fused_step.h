/* SPDX-License-Identifier: MIT */
/*
 * The other way to do train steps: whole steps in one kernel (kernels/fused/learn_steps.h), many of them a launch. It
 * works on the arrays of the recorded step (learn/train_step.h), samples the same rows and continues from the same
 * state, so a learner may change from one to the other between any two steps. Losses agree up to the order of sums.
 *
 * For small networks of two dense layers below the last, on which a GPU takes longer to begin a kernel than to do it.
 */
#ifndef GPUR_LEARN_FUSED_FUSED_STEP_H
#define GPUR_LEARN_FUSED_FUSED_STEP_H

#include "learn/train_step.h"

/* How it is launched; 0 is a rule's choice. Benchmarks and tests may set it between two steps: it changes no bit. */
typedef struct gpur_one_kernel_way {
    int64_t blocks;
    int32_t threads; /* in a block */
    int32_t as_grid; /* 1: never as one cluster */
    int64_t steps;   /* most in a launch */
} gpur_one_kernel_way;

typedef struct gpur_one_kernel {
    const gpur_step *step; /* NULL: this learner has no such kernel, and nothing else here is set */
    gpur_learn_steps_args args;
    gpur_one_kernel_way way;
    int32_t first_parts; /* of the gradient of the first sheet */
    float *first;        /* (first_parts, B, units) those parts, rows as far apart as the sheet's */
    float *parts;        /* (args.parts, P) of the gradient; NULL: there is one part */
} gpur_one_kernel;

/* For a step whose config asks for it; for another nothing, as in all that follows. Refuses one that cannot have it.
 * `step` must stay where it is. */
gpur_status gpur_one_kernel_open(gpur_one_kernel *one, const gpur_step *step);
void gpur_one_kernel_place(gpur_one_kernel *one, gpur_arena *arena);

/* Once the step is connected. */
void gpur_one_kernel_connect(gpur_one_kernel *one);

/* Enqueues `steps` train steps, in the consumer's turn. Between two steps of one launch nothing comes to the ring. */
gpur_status gpur_one_kernel_enqueue(const gpur_one_kernel *one, gpur_stream *stream, int64_t steps);

#endif
