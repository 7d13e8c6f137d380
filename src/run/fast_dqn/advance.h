/* SPDX-License-Identifier: MIT */
/* Advancing a run of fast DQN: carries out the order of its work, and pauses it when the run is stopped. */
#pragma once

#include "run/fast_dqn/handle.h"

/* As gpur_run_system wants them. */
gpur_status gpur_fast_dqn_check_advance(gpur_run *core, int64_t env_steps, int64_t train_steps);
gpur_status gpur_fast_dqn_advance(gpur_run *core, int64_t env_steps, int64_t train_steps);
gpur_status gpur_fast_dqn_evaluate(gpur_run *core, int64_t episodes, int32_t greedy, gpur_run_event *event);

/* Gives the policy that acts the weights that it acts by. Only while no train step runs. */
gpur_status gpur_fast_dqn_copy_weights(gpur_fast_dqn *run);

/* Moves all logs to the replay. Only while no train step runs. */
gpur_status gpur_fast_dqn_flush(gpur_fast_dqn *run);

/* 1: steps, train steps or an evaluation were begun and not finished, because the run was stopped. */
int gpur_fast_dqn_has_unfinished(const gpur_fast_dqn *run);

/* Waits for all threads. */
void gpur_fast_dqn_wait(gpur_fast_dqn *run);
