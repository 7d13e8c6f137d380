/* SPDX-License-Identifier: MIT */
/* Creates runs of fast DQN with any work; tests and benchmarks have tables of their own. */
#pragma once

#include "run/fast_dqn/handle.h"

/* gpur_fast_dqn_create with another table of work than a learner's; NULL: the learner's. The learner and its replay are
 * used for their settings, and the replay for the logs. */
gpur_status gpur_fast_dqn_create_with(gpur_learner *learner, const gpur_run_config *all,
                                      const gpur_fast_dqn_config *config, const gpur_fast_dqn_work *work,
                                      gpur_run **run);
