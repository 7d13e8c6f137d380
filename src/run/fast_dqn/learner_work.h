/* SPDX-License-Identifier: MIT */
/*
 * The work that a run hands to its learner, as a table of functions. Runs have gpur_learner_work, which uses a learner
 * and policies. A benchmark of the order of work alone has functions that sleep.
 */
#pragma once

#include "gpureplay/policy.h"
#include "gpureplay/learner.h"
#include "replay/schema.h"

typedef struct gpur_fast_dqn_work {
    void *context;

    /* The actions with the largest Q values of `count` observations. In any environment thread, at the same time. */
    gpur_status (*infer)(void *context, int64_t count, const unsigned char *obs, int32_t *actions);

    /* Sets the weights for `infer`: the latest after the train steps so far, or the target network's. Not while `train`
     * or `refresh` runs. */
    gpur_status (*copy)(void *context, int from_target);

    /* Runs `steps` train steps, and returns when they are done. In the trainer's thread. */
    gpur_status (*train)(void *context, int64_t steps);

    /* Fills the learner's cache of returns anew, before the train steps that follow. In the trainer's thread. */
    gpur_status (*refresh)(void *context);

    /* `copy` and `infer` for evaluations, which have weights of their own: a copy of the latest. */
    gpur_status (*copy_for_evaluation)(void *context);
    gpur_status (*infer_for_evaluation)(void *context, int64_t count, const unsigned char *obs, int32_t *actions);
} gpur_fast_dqn_work;

typedef struct gpur_learner_work {
    gpur_learner *learner;
    gpur_policy *acting, *evaluating; /* `evaluating` is NULL if there are no evaluations */
} gpur_learner_work;

typedef struct gpur_learner_work_size {
    int32_t streams;   /* threads that infer at the same time */
    int32_t rows;      /* observations of one inference */
    int32_t eval_rows; /* observations of one inference of evaluations; 0: there are none */
} gpur_learner_work_size;

/* After a failure call gpur_learner_work_close. */
gpur_status gpur_learner_work_open(gpur_learner_work *work, gpur_learner *learner, gpur_learner_work_size size,
                                   gpur_fast_dqn_work *table);
void gpur_learner_work_close(gpur_learner_work *work);
