/* SPDX-License-Identifier: MIT */
/* Evaluations of Ape-X, on the learner's side: sets the weights that one actor plays by (evaluating_actor.c), and takes
 * the result. */
#pragma once

#include "run/apex/actor.h"
#include "run/apex/handle.h"

/* In the thread that advances, without the lock. */

/* Begins an evaluation by the learner's present weights; one that is being played is given up. */
gpur_status gpur_apex_begin_evaluation(gpur_apex *apex, int64_t episodes, int32_t greedy, int32_t is_alone);

/* Waits until `is_over`, which is asked under the lock, answers 1, or the run is stopped, and delivers events
 * meanwhile. GPUR_INTERRUPTED: the run has ended by an error. */
gpur_status gpur_apex_await(gpur_apex *apex, int (*is_over)(const gpur_apex *apex));

/* Waits so until no evaluation is played, and reports one that has ended. GPUR_OK also if it is missing. */
gpur_status gpur_apex_await_evaluation(gpur_apex *apex);

/* Reports an evaluation beside the training that has ended. */
void gpur_apex_report_evaluation(gpur_apex *apex);

/* As gpur_run_system wants it. */
gpur_status gpur_apex_evaluate(gpur_run *core, int64_t episodes, int32_t greedy, gpur_run_event *event);

/* Takes a result from the evaluator. One of an evaluation that was given up is passed over. Any thread. */
void gpur_apex_take_evaluation(gpur_slot *slot, const gpur_actor_evaluation *result);

/* What is played will have no result. Under the lock. */
void gpur_apex_give_up_evaluation(gpur_apex *apex);
